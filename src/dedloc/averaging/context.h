// What the classes of a round share: the node, the host, keys, the ledger and the part store, and
// whom they ask and tell (roster.h).

#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/allreduce/environment.h"
#include "dedloc/averaging/roster.h"
#include "dedloc/consensus/ledger.h"
#include "dedloc/consensus/peer_score.h"
#include "dedloc/links/bandwidth_probe.h"

namespace dedloc::averaging {

// How long a leader that failed is passed over. Shorter than a usual step, so that nobody is lost.
inline constexpr Duration suspicion_of_leaders = 3s;
// Whom a leader has no room for asks it again after so long, in case somebody leaves.
inline constexpr Duration full_round_pause = 2s;

struct RoundOptions : allreduce::Options {
    std::uint64_t part_elements_min = 4096;  // a smaller share is not worth its messages
    std::size_t group_max = 64;
    std::size_t members_max = consensus::members_max;  // of a plan of ours; fewer in tests
    Duration deadline_min = 1s;                        // of a whole round, from its plan
    Duration quorum_timeout = 10s;
    std::uint32_t voter_after_contributions = 1;
    Duration announce_interval = 250ms;  // how often a member looks whether the leader lives
    Duration call_timeout = 600ms;       // of small messages between live peers, at least
    double rate_unknown = 12.5e6;        // bytes per second, while nobody has measured anything
    double upload_max = 0;               // what the user grants, bytes per second; 0: everything
    double download_max = 0;
    bool granted_is_true = false;  // plans count on what is granted, whatever was measured
    bool delayed = false;          // the next batch is computed beside the round
    bool leave_out_slow = false;   // contributions of links that are too slow for what they bring
    consensus::PlantedBugs bugs;
};

struct RoundContext {
    runtime::Node node;
    p2p::Host& host;
    const security::Signer& signer;
    const security::Verifier& verifier;
    consensus::Ledger& ledger;
    allreduce::PartStore& parts;
    const Roster& roster;
    RoundListener& listener;
    RoundOptions options;
    consensus::PeerScore scores{};
    links::Patience patience{options.call_timeout, options.deadline_max};

    // What the user grants from now on; true: more than before.
    bool set_caps(double upload_max, double download_max) {
        const auto grew = [](double before, double now) {
            return before > 0 && (now <= 0 || now > before);
        };
        const bool more =
            grew(options.upload_max, upload_max) || grew(options.download_max, download_max);
        options.upload_max = upload_max;
        options.download_max = download_max;
        return more;
    }

    // How long a majority of voters is waited for; a long round may keep them silent for as long.
    Duration quorum_patience() const { return patience.at_least(options.quorum_timeout); }
    // May this peer ask us anything?
    Ok gate(const PeerId& from) const { return consensus::gate(roster, from); }

    TimePoint now() const { return node.clock.now(); }
    const PeerId& me() const { return host.id(); }
};

// What consensus needs of the context.
consensus::Environment consensus_environment(RoundContext& context,
                                             consensus::Averages& averages,
                                             consensus::Listener& listener);

// What exchanges need of the context.
allreduce::Environment transfer_environment(RoundContext& context, allreduce::Listener& listener);

// A probe of this peer's link, by what the context knows.
links::BandwidthProbeOptions probe_options(RoundContext& context, std::function<bool()> idle);

}  // namespace dedloc::averaging
