// Moving and summing bytes under a plan needs from outside: the machine, the store of finished
// parts, how long answers are waited for, what is known of members, and whom it tells (Listener).
// One peer's exchanges share TransferState beside that, which Exchanges own.
//
// Thread: the network thread; calls return at once.

#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/allreduce/failed_owners.h"
#include "dedloc/allreduce/part_store.h"
#include "dedloc/allreduce/reducer.h"
#include "dedloc/allreduce/sparse_sums.h"
#include "dedloc/base/token_bucket.h"
#include "dedloc/codec/chooser.h"
#include "dedloc/codec/codec.h"
#include "dedloc/consensus/member_input.h"
#include "dedloc/events/complaints.h"
#include "dedloc/links/reachability.h"
#include "dedloc/links/timeouts.h"
#include "dedloc/p2p/host.h"
#include "dedloc/runtime/node.h"
#include "dedloc/security/signer.h"

namespace dedloc::allreduce {

// A run's options: what plans may look like, and what reductions may hold.
struct TransferOptions {
    codec::CodecId codec = codec::CodecId::fp16;
    // Where codecs are chosen by tensor: the others that parts may have, of more bytes, and what
    // has which. The ranges cover the vector; an aggregator knows no tensors and has none.
    std::vector<codec::CodecId> other_codecs{};
    std::vector<codec::CodecRange> codec_ranges{};
    std::uint64_t bounded_count = 0;  // as a plan's; a range of codecs ends there. 0: all
    std::uint64_t vector_count = 0;
    std::uint64_t fragments = 1;  // of the vector, one of which a round moves, in turn
    std::uint64_t part_elements_max = 1u << 20;
    std::uint64_t samples_max = 1u << 30;  // one peer may bring to one step, carried ones included
    Duration deadline_max = 120s;          // of a whole round, from its plan
    // Contributions that wait for others may take so much memory, then a member that is ahead is
    // not read from for a while; 0: no bound beside what the members send at all.
    std::size_t reduce_bytes_max = 0;
    double norm_max = 0;  // of the mean gradient in a bounded part of a contribution; 0: any
    // How parts are reduced; null: by the mean (mean_reducer.h).
    std::shared_ptr<const Reducer> reducer{};
    // With more contributors than this, sparse contributions are added (sparse_sums.h).
    std::size_t gather_max = codec::gather_max_usual;
    // Contributions are committed to, and owners keep what they reduced until the step is decided,
    // so that each reduction can be proved.
    bool proves = false;
    bool sum_by_arrival = false;  // a planted bug: owners add contributions as they come

    // As encoded, on average.
    double element_bytes() const {
        constexpr std::size_t many = 1024;  // what a block adds once does not count
        if (!codec_ranges.empty()) return codec::element_bytes(codec_ranges);
        return static_cast<double>(codec::encoded_size(codec, many)) / many;
    }
    // A round of this step moves these elements.
    consensus::ElementRange range_of(std::uint64_t step) const {
        return consensus::fragment_of(vector_count, fragments, step);
    }
    // A round moves so many bytes, on average.
    double average_bytes() const {
        return element_bytes() * static_cast<double>(vector_count) / static_cast<double>(fragments);
    }
    // May sums be reduced further?
    bool adds_up() const { return !reducer || reducer->adds_up(); }
    // Where contributions are not added on the way (gathered.h), nobody collects them either.
    bool may_have_grids() const { return adds_up() && !codec::is_sparse(codec); }
    // In which owners send on sums of the contributions of so many; none: they do not.
    std::optional<codec::CodecId> sum_codec(std::size_t contributors) const {
        return codec::adds_sums(codec, contributors, gather_max) ? codec::sum_codec(codec)
                                                                 : std::nullopt;
    }
    std::uint32_t reducer_number() const { return reducer ? reducer->number() : mean_number; }
};

// Memory that this peer's reductions hold, in bytes: contributions that wait for others, and
// averages that somebody may still ask for.
struct ReduceMemory {
    std::size_t now = 0;
    std::size_t most = 0;

    void take(std::size_t bytes) { most = std::max(most, now += bytes); }
    void give_back(std::size_t bytes) { now -= bytes; }
};

// The step that is open here, by the newest decision and its number.
struct OpenStep {
    Digest previous;
    std::uint64_t step = 0;
};

struct TransferEnvironment {
    runtime::Node node;
    p2p::Host& host;
    const security::Signer& signer;
    const security::Verifier& verifier;
    PartStore& parts;
    links::Timeouts& timeouts;
    events::Teller& teller;
    events::Complaints& complaints;
    TransferOptions options;
    std::function<OpenStep()> open_step;
    // Does this peer get the time that all have for their contributions?
    std::function<bool(const PeerId&)> is_waited_for;

    TimePoint now() const { return node.clock.now(); }
    const PeerId& me() const { return host.id(); }
    // Says that a member broke the protocol. Bad contributions have a way of their own.
    void complain_of(const PeerId& peer, std::string why) const {
        complaints.add(peer, now(), std::move(why));
    }
};

struct TransferState {
    ReduceMemory memory{};
    FailedOwners failed_owners{};
    links::UnreachablePeers unreachable{};
    std::optional<TimePoint> clipped_told{};
    // Members that weigh nothing may let the others wait in a few exchanges, and then in two a
    // minute. Identities cost nothing.
    TokenBucket waits_for_weightless{8, 1.0 / 30};
    KeptRests rests{};
    // Have we, as an owner, refused some of what we brought last?
    bool own_refused = false;
};

}  // namespace dedloc::allreduce
