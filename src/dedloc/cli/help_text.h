// What `dedloc --help` and `dedloc COMMAND --help` say beside the options: the commands in groups,
// two examples each, and the table of exit codes once, in `dedloc --help`.
//
// Thread: any. tests/process/test_command_line.py fails for a command that is not in the table.

#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>

namespace dedloc::cli {

struct CommandHelp {
    std::string_view command;  // "data emoji" for one below another
    std::string_view group;
    std::array<std::string_view, 2> examples;
};

std::span<const CommandHelp> command_help();
// Null: there is none.
const CommandHelp* find_command_help(std::string_view command);
std::string examples_of(const CommandHelp& help);  // "Examples:\n  dedloc …\n  dedloc …\n"

}  // namespace dedloc::cli
