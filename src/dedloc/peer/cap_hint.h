// A cap that is too small for a run, told before the first step instead of found out by it.
//
// Thread: any; pure.

#pragma once
#include <string>

#include "dedloc/run/run_file.h"
#include "dedloc/runtime/limited_network.h"

namespace dedloc::peer {

// Over the line of a peer with these caps go a whole gradient, up, and a whole average, down, in
// each round, at least; `vector_bytes` is either's size. Empty: they fit into the longest round.
std::string cap_hint(const run::AveragingConfig& averaging,
                     double vector_bytes,
                     const runtime::LineCaps& caps);

}  // namespace dedloc::peer
