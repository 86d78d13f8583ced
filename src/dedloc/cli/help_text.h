// The words of `dedloc --help` and `dedloc COMMAND --help` beside the options: groups of commands,
// two examples each, and the table of exit codes once, in `dedloc --help`.
//
// Thread: any. tests/process/test_command_line.py fails for a command that is not in the table.

#pragma once

namespace CLI {
class App;
}

namespace dedloc::cli {

// After all commands are added.
void arrange_help(CLI::App& app);

}  // namespace dedloc::cli
