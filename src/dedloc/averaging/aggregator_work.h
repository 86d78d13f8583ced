// An aggregator's work since it started, for people.

#pragma once
#include <cstddef>
#include <cstdint>

namespace dedloc::averaging {

struct AggregatorWork {
    std::uint64_t rounds = 0;      // committed ones with a part of ours
    std::uint64_t parts = 0;       // averages of ours in certificates
    std::size_t memory_bytes = 0;  // held by reductions now …
    std::size_t memory_most = 0;   // … and at most so far
    std::size_t memory_bound = 0;  // of contributions that wait; 0: no bound
};

}  // namespace dedloc::averaging
