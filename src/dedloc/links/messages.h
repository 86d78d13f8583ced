// Two peers say these to each other when one measures its link (bandwidth_probe.h): field lists
// in protobuf's wire format.

#pragma once
#include <cstdint>
#include <vector>

#include "dedloc/base/fields.h"

namespace dedloc::links {

inline constexpr const char* probe_method = "/dedloc/round/1/probe";  // stream

// Begins a probe of the asking peer's link (bandwidth_probe.h).
struct ProbeRequest {
    bool prober_sends = false;

    DEDLOC_FIELDS(prober_sends)
};

inline constexpr std::size_t probe_marks_max = 512;

// A partner's account of a probe: what it got, and when, since it was told to begin.
struct ProbeReport {
    std::vector<std::uint32_t> milliseconds;  // rising
    std::vector<std::uint32_t> bytes;         // by then, in all; same length

    DEDLOC_FIELDS((milliseconds, probe_marks_max), (bytes, probe_marks_max))
};

}  // namespace dedloc::links
