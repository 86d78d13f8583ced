// For tests: the paper's way to name links and its model.
#pragma once
#include <cstdint>

#include "dedloc/planner/split.h"

namespace dedloc::planner {

// ResNet-50 in fp16, full duplex: the paper's table "ResNet-50 averaging performance".
inline constexpr std::uint64_t resnet_elements = 25'557'032;

// Full duplex, fp16.
inline PeerRates megabits(double upload, double download) {
    return {.upload_per_s = upload * 1e6 / 16, .download_per_s = download * 1e6 / 16};
}

}  // namespace dedloc::planner
