// Exit codes of the lab's commands: those of the whole program (docs/exit-codes.md), and what test
// runners take for "skipped".

#pragma once
#include <cstdio>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::lab {

inline constexpr int exit_bad_input = 2;
inline constexpr int exit_data_missing = 5;
inline constexpr int exit_disk = 6;
inline constexpr int exit_check_failed = 9;
inline constexpr int exit_cannot_compute = 10;
inline constexpr int exit_skipped = 77;

// A number that a command wants to be at least, or at most, another one.
struct Bound {
    enum class Side { at_least, at_most };
    std::string name;
    double value = 0;
    Side side = Side::at_least;
    double limit = 0;

    // Not of a number that is none.
    bool holds() const { return side == Side::at_least ? value >= limit : value <= limit; }
    std::string text() const {
        return fmt::format("{} is {:.3f}, wanted is at {} {:.3f}",
                           name,
                           value,
                           side == Side::at_least ? "least" : "most",
                           limit);
    }
};

inline Bound at_least(std::string name, double value, double limit) {
    return {std::move(name), value, Bound::Side::at_least, limit};
}
inline Bound at_most(std::string name, double value, double limit) {
    return {std::move(name), value, Bound::Side::at_most, limit};
}

// Says of each bound that does not hold, in a sentence, what it is and what was found. True: all
// do.
inline bool all_hold(std::string_view command, const std::vector<Bound>& bounds) {
    bool all = true;
    for (const Bound& bound : bounds) {
        if (bound.holds()) continue;
        all = false;
        fmt::print(stderr, "dedloc-lab {}: {}\n", command, bound.text());
    }
    return all;
}
// Where all peers must have the same state in the end.
inline bool is_identical(std::string_view command, bool identical) {
    if (!identical)
        fmt::print(stderr, "dedloc-lab {}: peers have different states in the end\n", command);
    return identical;
}

// Says why a command could not do its work; its exit status.
inline int exit_after(const Error& error) {
    fmt::print(stderr, "dedloc: {}\n", error.message());
    if (error.kind() == ErrorKind::not_found) return exit_data_missing;
    if (error.kind() == ErrorKind::cannot_compute) return exit_cannot_compute;
    return error.kind() == ErrorKind::local_fault ? exit_disk : exit_check_failed;
}

}  // namespace dedloc::lab
