// What the classes of a round share: the node, the host, keys, the ledger and the part store, and
// what they ask of the room above (RoundDirectory).

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dedloc/averaging/ledger.h"
#include "dedloc/averaging/part_store.h"
#include "dedloc/averaging/unreachable.h"
#include "dedloc/codec/codec.h"
#include "dedloc/p2p/host.h"
#include "dedloc/runtime/node.h"
#include "dedloc/security/signer.h"

namespace dedloc::averaging {

struct RoundOptions {
    codec::CodecId codec = codec::CodecId::fp16;
    std::uint64_t vector_count = 0;
    std::uint64_t part_elements_max = 262144;
    std::uint64_t part_elements_min = 4096;  // a smaller share is not worth its messages
    std::uint64_t samples_max = 1u << 30;    // one peer may claim for one step
    std::size_t group_max = 64;
    Duration deadline_min = 1s;  // of a whole round, from its plan
    Duration deadline_max = 120s;
    Duration quorum_timeout = 10s;
    std::uint32_t voter_after_contributions = 1;
    Duration announce_interval = 250ms;  // how often a member looks whether the leader lives
    Duration call_timeout = 600ms;       // of small messages between live peers
    double rate_unknown = 12.5e6;        // bytes per second assumed before measuring
    double own_upload_bytes_per_s = 0;   // 0: not known
    double own_download_bytes_per_s = 0;
    PlantedBugs bugs;
};

// What happened in rounds, for events and measurements.
struct RoundNote {
    enum class Kind {
        plan_made,
        repair,
        refused_input,
        owner_failed,
        aborted,
        leader_suspected,
        branch_opened,
    };
    Kind kind;
    PeerId peer;       // whom it is about
    std::string text;  // for people
};

// Implemented by the room above.
class RoundDirectory {
  public:
    virtual ~RoundDirectory() = default;
    // Live trainers that stand on `base` and are worth waiting for (not us).
    virtual std::vector<PeerId> expected(const Base& base) const = 0;
    // Live peers that could share a new branch, trainers only (not us).
    virtual std::vector<PeerId> live_trainers() const = 0;
    // Voters of `base` (us included) that are heard of and still have their memory of votes.
    virtual std::size_t voters_heard_of(const Base& base) const = 0;
    // May this peer speak in rounds at all (it proved the run's secret)?
    virtual bool allowed(const PeerId& peer) const = 0;
    // The longest micro-batch somebody expected is computing, seconds.
    virtual double micro_batch_s() const = 0;
    // Others announce a round: hand in soon.
    virtual void round_wanted() = 0;
    // `peer` knows certificates that we lack.
    virtual void behind(const PeerId& peer) = 0;
    virtual void note(const RoundNote& note) = 0;
};

struct RoundContext {
    runtime::Node node;
    p2p::Host& host;
    const security::Signer& signer;
    const security::Verifier& verifier;
    Ledger& ledger;
    PartStore& parts;
    RoundDirectory& directory;
    RoundOptions options;
    UnreachablePeers unreachable{};

    TimePoint now() const { return node.clock.now(); }
    const PeerId& me() const { return host.id(); }
};

}  // namespace dedloc::averaging
