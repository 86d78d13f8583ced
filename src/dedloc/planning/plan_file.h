// A network in a file, for `dedloc plan`: who is there, how fast, with which role, and which single
// links are slower. docs/plan.md describes the format, examples/plans/ has some.
//
// Parsing is strict, as that of run files: unknown keys, wrong types and impossible values are
// errors with line and column.
//
// Thread: any; pure.

#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/codec/codec.h"
#include "dedloc/planner/plan.h"

namespace dedloc::planning {

inline constexpr std::size_t plan_file_bytes_max = 4 * 1024 * 1024;
// Most peers of a file, all counts together.
inline constexpr std::size_t plan_peers_max = 100'000;

struct PlanFile {
    std::string name{};
    std::string about{};
    std::string codec = "fp16";
    std::uint64_t gather_max = codec::gather_max_usual;  // averaging.gather_max
    std::uint64_t local_steps = 1;                       // of its own that a peer makes of a batch
    // A round moves one of so many fragments of the vector: the question has the elements of one.
    std::uint64_t fragments = 1;
    // The run has [robust]: rounds are dense, and others compute contributions again.
    bool robust = false;
    planner::LoadQuestion question{};
    std::vector<std::string> groups{};  // the section of each peer: one a peer
};

// Errors: bad_input, "net.toml:7:1: 'up' of [peers.fast] must be a rate like \"100 Mb/s\"".
Result<PlanFile> parse_plan_file(std::string_view text, std::string_view file_name);

// Sets what averages of these peers' contributions in a codec cost, and who may own them.
void expect_codec(std::vector<planner::PeerRates>& peers,
                  codec::CodecId codec,
                  std::uint64_t gather_max);

// Bits a second of "200 Mb/s", "25 MB/s", "none".
Result<double> rate_from_text(std::string_view text);

}  // namespace dedloc::planning
