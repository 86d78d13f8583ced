// Exit codes of the lab's commands: those of the whole program (docs/exit-codes.md), and what test
// runners take for "skipped".

#pragma once

namespace dedloc::lab {

inline constexpr int exit_bad_input = 2;
inline constexpr int exit_data_missing = 5;
inline constexpr int exit_disk = 6;
inline constexpr int exit_check_failed = 9;
inline constexpr int exit_skipped = 77;

}  // namespace dedloc::lab
