// `dedloc-lab enumerate`: one calm step of a small collaboration is looked at message by message;
// then it is repeated once for every message and every fault at that moment: its sender or its
// receiver is killed, frozen, slowed down or cut off from the others. Everything that `lab
// simulate` checks is checked, and how late the next step was: a step that comes too late is a
// failure as well.
//
// With `after_fault` every such history is looked at message by message, too: for some messages
// that only a fault brings about (the next leader's questions, repairs, who fetches what it
// missed) it is repeated with a second fault there. Kinds of messages that the calm step did not
// have come first, each once before any comes twice; which fault it is goes round.
//
// The step is one of a plain group; with `group_max` of a grid (what groups send one another, the
// second group of each), with `aggregators` one whose parts others reduce, and with `delayed` one
// that is made while trainers compute.
//
// Faults that random ones hit by luck are injected on purpose: owner, contributor, leader and voter
// at every message of the protocol (README, what holds, 1 to 4).
//
// Errors: exit code 9 when a run failed; 2 for wrong arguments; 1 when not all could be run.

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct EnumerateCommand {
    std::size_t peers = 4;        // aggregators among them
    std::size_t group_max = 0;    // 0: one group of all
    std::size_t aggregators = 0;  // the last so many
    bool delayed = false;
    std::string codec = "fp32";  // of the averages
    std::uint64_t seed = 1;
    std::uint64_t step = 3;   // whose messages: those between its commit and the next one
    std::uint64_t first = 0;  // run
    std::uint64_t runs = 0;   // 0: all
    std::string method;       // only messages whose method contains this
    double gap_max_s = 5;     // between two steps, while those who are well are a majority
    bool after_fault = false;
    std::size_t second_max = 4;  // second faults of one run
    int workers = 2;
    bool json = false;
    bool trace = false;     // print the events; one run at a time
    bool messages = false;  // and every message that arrives
};

int run_enumerate(const EnumerateCommand& command);

}  // namespace dedloc::lab
