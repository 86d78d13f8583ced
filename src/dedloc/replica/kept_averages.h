// How many bytes of averages a trainer keeps in memory, for voters that look at what they vote for
// and for whoever replays a step.
//
// Averages of the step that is voted on and of those before must fit, however large the model is: a
// voter that forgot some of what it votes for could never vote. A newcomer replays the steps that
// were made while the state came to it; whoever needs longer for that than these steps take begins
// again. In 8 bit a dozen averages are as much as one state with its moments; of large models there
// is room for fewer, and on a machine or in a container with little memory as well.
//
// Pure. Thread: any.

#pragma once
#include <algorithm>
#include <cstdint>

namespace dedloc::replica {

inline constexpr std::uint64_t kept_averages_usual = std::uint64_t{512} << 20;
inline constexpr std::uint64_t kept_averages_large = std::uint64_t{4} << 30;
inline constexpr double kept_commits = 12;       // while they take less than that
inline constexpr double kept_commits_least = 4;  // whatever they take

// `usual` bytes, if a dozen averages take no more, and no more than `most` but for the least. An
// eighth is for what parts cost beside their bytes.
constexpr std::uint64_t kept_averages_bytes(std::uint64_t elements,
                                            double element_bytes,
                                            std::uint64_t usual = kept_averages_usual,
                                            std::uint64_t most = kept_averages_large) {
    const double average = static_cast<double>(elements) * element_bytes * 9 / 8;
    const double wanted =
        std::min(average * kept_commits, static_cast<double>(kept_averages_large));
    const auto least = static_cast<std::uint64_t>(average * kept_commits_least);
    const std::uint64_t kept = std::max(usual, static_cast<std::uint64_t>(wanted));
    return std::max(std::min(kept, most), least);
}

// Averages take an eighth of the memory that this process may have, `allowed` bytes (0: not known),
// at most: gradients, states and what libtorch keeps are the rest.
constexpr std::uint64_t kept_averages_most(std::uint64_t allowed) {
    return allowed == 0 ? kept_averages_large : std::min(allowed / 8, kept_averages_large);
}

}  // namespace dedloc::replica
