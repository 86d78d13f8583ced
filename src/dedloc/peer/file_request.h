// A request to a peer that runs on this machine, by a file in a folder of its own: the peer takes
// the file away when it has done what is asked. Where it refuses, it leaves its reason beside the
// file first (admission::refusal_suffix).
//
// Errors: bad_input (the peer refused, in its words), timeout (it does not take the file away),
// local_fault (the file cannot be written). Blocks for `timeout_s` at most. Thread: any.

#pragma once
#include <string>
#include <string_view>

#include "dedloc/base/result.h"

namespace dedloc::peer {

// `silence`: the sentence of the error where the peer does not answer.
Ok ask_by_file(const std::string& folder,
               std::string_view request,
               double timeout_s,
               std::string_view silence);

}  // namespace dedloc::peer
