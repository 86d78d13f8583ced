// Exit codes of the lab's commands: those of the whole program (docs/exit-codes.md), and what test
// runners take for "skipped".

#pragma once
#include <cstdio>
#include <fmt/format.h>

#include "dedloc/base/result.h"

namespace dedloc::lab {

inline constexpr int exit_bad_input = 2;
inline constexpr int exit_data_missing = 5;
inline constexpr int exit_disk = 6;
inline constexpr int exit_check_failed = 9;
inline constexpr int exit_skipped = 77;

// Says why a command could not do its work; its exit status.
inline int exit_after(const Error& error) {
    fmt::print(stderr, "dedloc: {}\n", error.message());
    if (error.kind() == ErrorKind::not_found) return exit_data_missing;
    return error.kind() == ErrorKind::local_fault ? exit_disk : exit_check_failed;
}

}  // namespace dedloc::lab
