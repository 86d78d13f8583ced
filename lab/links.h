// `dedloc lab links`: real peers on shaped lines average a vector; how long it takes beside what
// the planner promised, and beside the same lines with equal parts.
//
//   dedloc lab links --setup C --json          a network of `dedloc plan --setup`, scaled down
//   dedloc lab links --peers 4 --rtt-ms 50     lines without limit, but far apart
//
// Scaled down: all rates by one factor, so that two cores are not the limit, and the vector by
// another; the planned time follows exactly. Lines carry so much payload; packet headers and
// acknowledgements come on top. A round's time is from the first member's beginning to the moment
// when the last one has every averaged number, certificate included.
//
// Exit status: 0; 9 a bound that was given does not hold, or a contribution was left out of a round
// that counts; 77 no namespaces here ("skipped" in the JSON says why); 1 anything else.
// Thread: one. Errors: on standard error.

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct LinksCommand {
    std::string setup;
    std::size_t peers = 4;       // without a setup
    double round_trip_ms = 0;    // without a setup
    std::uint64_t elements = 0;  // 0: for rounds of half a minute; 256 without a setup
    double slower = 0;           // than the setup's rates; 0: as much as the processors need
    std::string codec = "fp16";
    std::string congestion_control = "cubic";  // as on most machines at home
    int rounds = 3;
    int warm_up = 0;  // until rates are measured; 0: 2, with aggregators 4
    bool no_equal = false;
    bool rates_told = false;  // nothing is left to measure
    double ratio_max = 0;     // of the planned time; 0: any
    double speedup_min = 0;   // over equal parts
    std::string program;
    std::string directory;
    bool json = false;
};

int run_links(const LinksCommand& command);

}  // namespace dedloc::lab
