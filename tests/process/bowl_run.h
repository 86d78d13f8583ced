// The run file of the lab's real processes: a bowl to roll down, batches that take a known time.
//
// Thread: any.

#pragma once
#include <string>

namespace dedloc::lab {

struct BowlRun {
    std::string name;
    int elements = 0;      // of the model; four bytes each go through a round in fp32
    int milliseconds = 0;  // that a micro-batch of two samples takes
    std::string codec = "fp32";
    int checkpoint_every = 0;  // steps; 0: never
};

std::string bowl_run_text(const BowlRun& run);

}  // namespace dedloc::lab
