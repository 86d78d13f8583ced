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

#include "dedloc/averaging/failed_owners.h"
#include "dedloc/averaging/part_store.h"
#include "dedloc/averaging/roster.h"
#include "dedloc/codec/chooser.h"
#include "dedloc/codec/codec.h"
#include "dedloc/consensus/ledger.h"
#include "dedloc/consensus/peer_score.h"
#include "dedloc/links/bandwidth_probe.h"
#include "dedloc/links/patience.h"
#include "dedloc/links/reachability.h"
#include "dedloc/p2p/host.h"
#include "dedloc/runtime/node.h"
#include "dedloc/security/signer.h"

namespace dedloc::averaging {

// How long a leader that failed is passed over. Shorter than a usual step, so that nobody is lost.
inline constexpr Duration suspicion_of_leaders = 3s;
// Whom a leader has no room for asks it again after so long, in case somebody leaves.
inline constexpr Duration full_round_pause = 2s;

struct RoundOptions {
    codec::CodecId codec = codec::CodecId::fp16;
    // Where codecs are chosen by tensor: the others that parts may have, of more bytes, and what
    // has which. The ranges cover the vector; an aggregator knows no tensors and has none.
    std::vector<codec::CodecId> other_codecs{};
    std::vector<codec::CodecRange> codec_ranges{};
    std::uint64_t bounded_count = 0;  // as a plan's; a range of codecs ends there. 0: all
    std::uint64_t vector_count = 0;
    std::uint64_t part_elements_max = 1u << 20;
    std::uint64_t part_elements_min = 4096;  // a smaller share is not worth its messages
    std::uint64_t samples_max = 1u << 30;  // one peer may bring to one step, carried ones included
    std::size_t group_max = 64;
    std::size_t members_max = consensus::members_max;  // of a plan of ours; fewer in tests
    Duration deadline_min = 1s;                        // of a whole round, from its plan
    Duration deadline_max = 120s;
    Duration quorum_timeout = 10s;
    std::uint32_t voter_after_contributions = 1;
    Duration announce_interval = 250ms;  // how often a member looks whether the leader lives
    Duration call_timeout = 600ms;       // of small messages between live peers, at least
    double rate_unknown = 12.5e6;        // bytes per second, while nobody has measured anything
    double upload_max = 0;               // what the user grants, bytes per second; 0: everything
    double download_max = 0;
    bool granted_is_true = false;  // plans count on what is granted, whatever was measured
    // Contributions that wait for others may take so much memory, then who is ahead is not read
    // from for a while; 0: no bound beside what the members send at all.
    std::size_t reduce_bytes_max = 0;
    double norm_max = 0;   // of the mean gradient in a bounded part of a contribution; 0: any
    bool delayed = false;  // the next batch is computed beside the round
    bool leave_out_slow = false;  // contributions of lines that are too slow for what they bring
    consensus::PlantedBugs bugs;

    // As encoded, on average.
    double element_bytes() const {
        constexpr std::size_t many = 1024;  // what a block adds once does not count
        if (!codec_ranges.empty()) return codec::element_bytes(codec_ranges);
        return static_cast<double>(codec::encoded_size(codec, many)) / many;
    }
};

// What the reductions of this peer hold, in bytes: contributions that wait for others, and averages
// that somebody may still ask for.
struct ReduceMemory {
    std::size_t now = 0;
    std::size_t most = 0;

    void take(std::size_t bytes) { most = std::max(most, now += bytes); }
    void give_back(std::size_t bytes) { now -= bytes; }
};

struct RoundContext {
    runtime::Node node;
    p2p::Host& host;
    const security::Signer& signer;
    const security::Verifier& verifier;
    consensus::Ledger& ledger;
    PartStore& parts;
    const Roster& roster;
    RoundListener& listener;
    RoundOptions options;
    links::UnreachablePeers unreachable{};
    FailedOwners failed_owners{};
    consensus::PeerScore scores{};
    ReduceMemory memory{};
    links::Patience patience{options.call_timeout, options.deadline_max};
    bool own_refused = false;  // some of our input, by ourselves, since participate() has it
    bool told_of_full_round = false;
    std::size_t fetches_at_once = 0;  // that the last fetch of a commit's parts came to
    Duration part_fetched_in{0};      // and how long a part took
    // Waits for a finished part as long as its owner goes on sending; null: nothing is on its way.
    std::function<Task<void>(consensus::FinishedPart, TimePoint deadline)> arrival{};
    // Has a round of ours taken this average, and looked at its bytes? null: there are no rounds.
    std::function<bool(const consensus::FinishedPart&)> was_checked{};

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

    // A member broke the protocol: told with its name and the reason.
    void refuse(RoundNote::Kind kind, const PeerId& peer, std::string why) {
        if (kind == RoundNote::Kind::refused_input && peer == me()) own_refused = true;
        if (scores.complaints().add(peer, node.clock.now()))
            listener.note(RoundNote{kind, peer, std::move(why)});
    }

    // Tells of what a member may not send; that it is late or stands elsewhere is no offence.
    void refuse_message(const PeerId& peer, const Error& why) {
        if (why.kind() == ErrorKind::peer_broke_protocol)
            refuse(RoundNote::Kind::refused_message, peer, why.message());
    }

    // A leader has no room for us: told once, as it says so in every round.
    void tell_of_full_round(const PeerId& leader, std::string why) {
        constexpr std::size_t letters_max = 400;  // they are the leader's
        if (std::exchange(told_of_full_round, true)) return;
        why.resize(std::min(why.size(), letters_max));
        listener.note(RoundNote{RoundNote::Kind::round_full, leader, std::move(why)});
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

// A probe of this peer's link, by what the context knows.
links::BandwidthProbeOptions probe_options(RoundContext& context, std::function<bool()> idle);

}  // namespace dedloc::averaging
