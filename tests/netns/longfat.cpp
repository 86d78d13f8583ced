#include "tests/netns/longfat.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dedloc/monitor/json_line.h"
#include "dedloc/runtime/real.h"

#include "tests/common/exit_codes.h"
#include "tests/common/temporary_folder.h"
#include "tests/netns/nat_peer.h"
#include "tests/netns/nat_topology.h"

namespace dedloc::lab {
namespace {

constexpr double share_min = 0.90;
constexpr double ramp_seconds = 4;
constexpr int warm_up_streams = 3;
constexpr int warm_up_megabytes = 48;

struct Seen {
    double one_stream = 0;  // bytes a second, all of it
    double steady = 0;
    double whole = 0;
    double call_ms = 0;
    int lanes = 1;
};

Result<Seen> measure(const LongfatCommand& command, const std::string& folder) {
    TopologyOptions options;
    options.public_machines = 0;
    options.delay = from_seconds(command.round_trip_ms / 2e3);
    options.bytes_per_s = command.mbit_per_s * 1e6 / 8;
    DEDLOC_TRY(auto net, NatTopology::make(options));
    const auto start = [&](char name) {
        return NatPeer::start(
            net->host(name), folder, std::string(1, name), command.log, command.congestion_control);
    };
    DEDLOC_TRY(auto a, start('a'));
    DEDLOC_TRY(auto b, start('b'));
    DEDLOC_TRY_VOID(a->ready());
    DEDLOC_TRY_VOID(b->ready());
    const std::string address = "/ip4/203.0.113.3/tcp/4001/p2p/" + b->id();
    DEDLOC_TRY_VOID(a->ask({{"do", "dial"}, {"address", address}}));
    Seen seen;
    const auto stream = [&](int megabytes) {
        return a->ask({{"do", "stream"},
                       {"peer", b->id()},
                       {"megabytes", megabytes},
                       {"ramp_s", ramp_seconds}});
    };
    DEDLOC_TRY(const nlohmann::json first, stream(command.megabytes / 4));
    seen.one_stream = first.value("steady_bytes_per_s", 0.0);
    for (int i = 0; i < warm_up_streams; ++i) DEDLOC_TRY_VOID(stream(warm_up_megabytes));
    DEDLOC_TRY(const nlohmann::json last, stream(command.megabytes));
    seen.steady = last.value("steady_bytes_per_s", 0.0);
    seen.whole = last.value("bytes_per_s", 0.0);
    seen.lanes = last.value("lanes", 0);
    DEDLOC_TRY(const nlohmann::json call,
               a->ask({{"do", "call"}, {"peer", b->id()}, {"bytes", 100}}));
    seen.call_ms = call.value("ms", 0.0);
    return seen;
}

}  // namespace

int run_longfat(const LongfatCommand& command) {
    if (const Ok may = runtime::may_use_congestion_control(command.congestion_control); !may) {
        fmt::print(stderr, "dedloc-lab longfat: --congestion-control: {}\n", may.error().message());
        return exit_bad_input;
    }
    if (const std::string why = NatTopology::why_not(); !why.empty()) {
        fmt::print(stderr, "dedloc-lab longfat: skipped: {}\n", why);
        return exit_skipped;
    }
    const auto folder = TemporaryFolder::make();
    if (!folder) {
        fmt::print(stderr, "dedloc-lab longfat: {}\n", folder.error().message());
        return 1;
    }
    const auto seen = measure(command, folder->path());
    if (!seen) {
        fmt::print(stderr, "dedloc-lab longfat: {}\n", seen.error().message());
        return 1;
    }
    const double rate = command.mbit_per_s * 1e6 / 8;
    const double share = seen->steady / rate;
    fmt::print("one connection  {:6.1f} Mbit/s\n{} lanes         {:6.1f} Mbit/s of {:.0f}\n",
               seen->one_stream * 8e-6,
               seen->lanes,
               seen->steady * 8e-6,
               command.mbit_per_s);
    if (command.json) {
        const nlohmann::json result = {{"share_of_rate", share},
                                       {"share_with_ramp", seen->whole / rate},
                                       {"share_of_one_connection", seen->one_stream / rate},
                                       {"lanes", seen->lanes},
                                       {"mbit_per_s", command.mbit_per_s},
                                       {"round_trip_ms", command.round_trip_ms},
                                       {"call_ms", seen->call_ms},
                                       {"congestion_control", command.congestion_control}};
        fmt::print("{}\n", monitor::json_line(result));
    }
    return all_hold("longfat", {at_least("share_of_rate", share, share_min)}) ? 0
                                                                              : exit_check_failed;
}

}  // namespace dedloc::lab
