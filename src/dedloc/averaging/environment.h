// A round needs from outside: the machine, keys, the ledger, the store of finished parts, and
// whom it asks and tells (roster.h). What changes has an owner elsewhere.

#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/allreduce/centered_clip_reducer.h"
#include "dedloc/allreduce/environment.h"
#include "dedloc/averaging/roster.h"
#include "dedloc/consensus/ledger.h"
#include "dedloc/consensus/peer_score.h"
#include "dedloc/links/bandwidth_probe.h"

namespace dedloc::averaging {

struct RoundOptions : allreduce::TransferOptions {
    std::uint64_t part_elements_min = 4096;  // a smaller share is not worth its messages
    std::size_t group_max = 64;
    std::uint64_t batch_target = 0;  // samples of one step of all together; 0: not known
    std::size_t members_max = consensus::members_max;  // of a plan of ours; fewer in tests
    Duration deadline_min = 1s;                        // of a whole round, from its plan
    Duration quorum_timeout = 10s;
    std::uint32_t voter_after_contributions = 1;
    Duration announce_interval = 250ms;  // how often a member looks whether the leader lives
    Duration call_timeout = 600ms;       // of small messages between live peers, at least
    double rate_unknown = 12.5e6;        // bytes per second, while nobody has measured anything
    double upload_max = 0;               // what the user grants, bytes per second; 0: everything
    double download_max = 0;
    bool granted_is_true = false;   // plans count on what is granted, whatever was measured
    bool delayed = false;           // the next batch is computed beside the round
    bool leave_out_slow = false;    // contributions of links that are too slow for what they bring
    bool byzantine_quorum = false;  // fewer than a third of the voters may lie
    bool checks = false;            // this peer computes others' contributions again
    allreduce::CenteredClipRule clip_rule{};  // where rounds are proved
    consensus::PlantedBugs bugs;
};

// Constant for a node's life.
struct RoundEnvironment {
    runtime::Node node;
    p2p::Host& host;
    const security::Signer& signer;
    const security::Verifier& verifier;
    consensus::Ledger& ledger;
    allreduce::PartStore& parts;
    const Roster& roster;
    RoundListener& listener;
    events::Teller& teller;
    RoundOptions options;
    consensus::OrderJudge& judge = consensus::no_new_orders();

    // May this peer ask us anything?
    Ok gate(const PeerId& from) const { return consensus::gate(roster, from); }
    TimePoint now() const { return node.clock.now(); }
    const PeerId& me() const { return host.id(); }
};

inline Duration quorum_timeout(const RoundEnvironment& environment,
                               const links::Timeouts& timeouts) {
    return consensus::quorum_timeout(environment.roster,
                                     environment.ledger.base(),
                                     timeouts,
                                     environment.options.quorum_timeout);
}

// The part of it that consensus needs.
consensus::ConsensusEnvironment consensus_environment(const RoundEnvironment& environment,
                                                      consensus::PeerScore& scores,
                                                      const links::Timeouts& timeouts,
                                                      consensus::Averages& averages,
                                                      events::Complaints& complaints,
                                                      consensus::OrderJudge& judge);

// The part of it that exchanges need.
allreduce::TransferEnvironment transfer_environment(const RoundEnvironment& environment,
                                                    const consensus::PeerScore& scores,
                                                    links::Timeouts& timeouts,
                                                    events::Complaints& complaints);

// A probe of this peer's link.
links::BandwidthProbeOptions probe_options(const RoundEnvironment& environment,
                                           std::function<bool()> idle);

}  // namespace dedloc::averaging
