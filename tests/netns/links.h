// `dedloc-lab links`: real peers on shaped lines average a vector; how long it takes beside what
// the planner promised, and beside the same lines with equal parts.
//
//   dedloc-lab links --setup C --json          a network of `dedloc plan --setup`, scaled down
//   dedloc-lab links --peers 4 --rtt-ms 50     lines without limit, but far apart
//
// Scaled down: all rates by one factor, so that two cores are not the limit, and the vector by
// another; the planned time follows exactly, and so it does with another codec than the plan's
// fp16. Lines carry so much payload; packet headers and
// acknowledgements come on top. A round's time is from the first member's beginning to the moment
// when the last one has every averaged number, certificate included.
//
// Bounds that a setup has to reach (given ones take the place of these; 0: any):
//   ratio_to_plan at most 1.15
//   speedup_over_equal of C at least 1.85
//   speedup_of_aggregators at least what was planned / 1.15
//
// Exit status: 0; 9 a bound does not hold, or a contribution was left out of a round that counts: a
// sentence says which; 2 wrong arguments, a bound on what is not measured too; 77 no namespaces
// here ("skipped" in the JSON says why); 1 anything else.
// Thread: one. Errors: on standard error.

#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/base/result.h"

#include "tests/common/exit_codes.h"

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
    bool rates_told = false;            // nothing is left to measure
    std::optional<double> ratio_max;    // of the planned time
    std::optional<double> speedup_min;  // over equal parts
    std::string program;
    std::string directory;
    bool json = false;
};

int run_links(const LinksCommand& command);

// The bytes of an element in `codec`, over the `element_bytes` that a plan counted with.
Result<double> codec_share(const std::string& codec, double element_bytes);
// Bounds on what was `measured` (as --json prints it).
std::vector<Bound> bounds_of(const LinksCommand& command, const nlohmann::ordered_json& measured);

}  // namespace dedloc::lab
