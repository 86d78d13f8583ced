// `dedloc-lab unlike`: how far two machines are from each other in what a peer of a robust run
// hands in, of the same samples at the same state: what robust.tolerance has to allow for.
//
//   dedloc-lab unlike --save FILE               # on one machine
//   dedloc-lab unlike --against FILE --json     # on another one, or of other instructions:
//       ONEDNN_MAX_CPU_ISA=SSE41 ATEN_CPU_CAPABILITY=default
//
// Gradients, and the ways of 1, 4 and 30 inner steps by each optimizer, at first and at trained
// parameters, of the demo's network or, with --albert, of a small ALBERT. Both sides must be called
// with the same options otherwise.
//
// `ok`: none is further from the other machine's than a fifth of what runs allow. Errors: exit code
// 9 if one is; 2: the file is none of these; 5 without the data.
// Cost: the gradients of some 15,000 samples.

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct UnlikeCommand {
    std::string save;     // a file that is written, or …
    std::string against;  // … one that another machine wrote
    bool albert = false;
    std::string precision = "fp32";
    int threads = 1;
    std::string data_directory;
    bool json = false;
};

int run_unlike(const UnlikeCommand& command);

}  // namespace dedloc::lab
