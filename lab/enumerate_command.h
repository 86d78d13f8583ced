// `dedloc lab enumerate`: one calm step of a small collaboration is looked at message by message;
// then it is repeated once for every message and every fault at that moment: its sender or its
// receiver is killed, frozen, slowed down or cut off from the others. Everything that `lab
// simulate` checks is checked, and how late the next step was.
//
// What random faults hit by luck is hit here on purpose: owner, contributor, leader and voter at
// every message of the protocol (DESIGN §2, promises 1 to 4).
//
// Errors: exit code 9 when a run failed; 2 for wrong arguments.

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct EnumerateCommand {
    std::size_t peers = 4;
    std::uint64_t seed = 1;
    std::uint64_t step = 3;   // whose messages: those between its commit and the next one
    std::uint64_t first = 0;  // run
    std::uint64_t runs = 0;   // 0: all
    std::string method;       // only messages whose method contains this
    int workers = 2;
    bool json = false;
    bool trace = false;  // print the events; one run at a time
};

int run_enumerate(const EnumerateCommand& command);

}  // namespace dedloc::lab
