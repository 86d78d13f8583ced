// A saved page: the web page of a run as one file that shows it without a server: the page's own
// files and what its store knows now. It asks nothing of anybody; a browser opens it from a disk.
//
// Thread: any. Cost: what the store keeps, as text (RunStore's limits).

#pragma once
#include <string>

#include "dedloc/web/run_store.h"

namespace dedloc::web {

std::string saved_page(RunStore& store);

}  // namespace dedloc::web
