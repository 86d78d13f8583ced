// The web page of this process, as `--web [PORT]` asks for it, with its failures' exit codes. The
// file `web` of a peer's folder has its address.
//
// Errors: Failure with port, bad_input, disk.

#pragma once
#include <memory>

#include "dedloc/peer/exit_codes.h"
#include "dedloc/web/run_page.h"

namespace dedloc::peer {

// Fills in where a peer's sheets are.
Outcome<std::unique_ptr<web::RunPage>> open_web_page(web::RunPageOptions options);

}  // namespace dedloc::peer
