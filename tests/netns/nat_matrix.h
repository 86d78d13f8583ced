// `dedloc-lab nat`: does every pair of machines find each other, whatever stands between them?
//
// A cell is a pair of kinds (nat_topology.h) with two public machines that become relays by
// themselves. b becomes reachable in its way; a is told b's addresses and calls it by id. Checked:
//   the first byte is back within 3 s
//   the path is what it should be: direct (one of the two can be dialled), punched (two cones),
//     relayed
//   after that nothing goes over a relay that need not
// Then the relay that carries a transfer between two symmetric NATs is killed: the transfer goes on
// over the other relay and every message arrives.
//
// Needs root and namespaces; without them it says so and counts everything as skipped.
// Cost: 40 s to two minutes. Errors: exit code 9 when a check failed, 77 without
// namespaces.

#pragma once
#include <string>
#include <vector>

namespace dedloc::lab {

struct NatCommand {
    std::vector<std::string> cells;  // "symmetric:public"; empty: all
    double delay_ms = 10;            // one way between public addresses
    std::string log = "warning";     // of the peers, into --dir
    std::string directory;           // kept; empty: temporary
    bool no_kill = false;
    bool json = false;
};

int run_nat(const NatCommand& command);

}  // namespace dedloc::lab
