// A layout lists what is averaged and kept of a model: parameters, then float buffers (BatchNorm
// statistics), each a flat vector. The averaged vector of a round is [gradient of parameters |
// change of buffers].
//
// Thread: any; values.

#pragma once
#include <cstdint>
#include <vector>

#include "dedloc/optim/optimizer.h"

namespace dedloc::run {

struct Layout {
    std::vector<optim::ParameterGroup> parameters;  // cover [0, parameters_count) in order
    std::uint64_t parameters_count = 0;
    std::uint64_t buffers_count = 0;
    std::uint64_t vector_count() const { return parameters_count + buffers_count; }
};

}  // namespace dedloc::run
