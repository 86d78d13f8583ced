// The plan of a round and what came of its parts, as a decision names them: who takes part with
// what, who owns which range, and what an owner signed of it. No gradients, no codec: counters,
// ranges and digests only.
//
// Thread: any; pure. Cost: linear in members and parts.

#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "dedloc/base/bits.h"
#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/consensus/member_input.h"

namespace dedloc::consensus {

// Members of one plan, aggregators among them. Voters have their places first.
inline constexpr std::size_t members_max = 256;
inline constexpr std::size_t parts_max = 8192;  // of one plan
inline constexpr std::uint32_t trust_whole = 64;

inline constexpr std::string_view plan_domain = "dedloc-plan";
inline constexpr std::string_view part_domain = "dedloc-part";

// One single-decree consensus: at most one decision is ever certified for it.
struct Instance {
    Digest branch;
    std::uint64_t step = 0;
    std::uint32_t attempt = 0;

    friend bool operator==(const Instance&, const Instance&) = default;
    DEDLOC_FIELDS(branch, step, attempt)
};

struct PlanMember {
    PeerId peer;
    std::uint64_t incarnation = 0;
    MemberInput input;
    bool dialable = false;
    bool aggregator = false;  // only reduces: brings nothing, gets no averages, never votes
    // The member's contribution is committed and checked, but is no part of the average: it is new,
    // or on probation.
    bool weightless = false;
    bool checks = false;  // offers to compute others' contributions again
    // A young key's samples weigh trust / trust_whole of what they are (protection.h). 0: whole.
    std::uint32_t trust = 0;

    DEDLOC_FIELDS(peer, incarnation, input, dialable, aggregator, weightless, checks, trust)
};

// By what the samples of a member with this trust are multiplied.
inline double trust_factor(std::uint32_t trust) {
    return trust == 0 ? 1.0 : static_cast<double>(trust) / trust_whole;
}

struct PlanPart {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    std::uint32_t owner = 0;  // index into members
    // Where it is not the plan's, because codecs are chosen by tensor.
    std::optional<std::uint32_t> codec{};

    ElementRange range() const { return {offset, count}; }
    DEDLOC_FIELDS(offset, count, owner, codec)
};

struct RoundPlan {
    Digest run;
    Instance instance;
    std::uint32_t ballot = 0;
    PeerId leader;
    Digest previous;
    Digest state;
    std::uint32_t codec = 0;
    std::vector<PlanMember> members;     // sorted by PeerId: the order of the sums
    std::vector<PlanPart> parts;         // cover what the round moves, in order
    std::vector<std::uint32_t> standby;  // members that take over parts, in this order
    std::uint32_t reduce_ms = 0;         // durations from receipt
    std::uint32_t round_ms = 0;
    std::uint32_t predicted_ms = 0;  // what the links as they were announced allow
    // A grid (routes.h): whom repair 0 goes through. 0 groups: members send to the owners.
    std::uint32_t groups = 0;
    std::vector<std::uint32_t> group_of;    // one a member
    std::vector<std::uint32_t> collectors;  // members: column k's of group g at [k * groups + g]
    // Trainers whose contributions this round does without, as their links are too slow for what
    // they bring, rising. Those who are members all the same only receive.
    std::vector<PeerId> left_out;
    // The run's norm_max holds for parts that begin before this element; what follows (changes of
    // buffers) is as long as it is. 0: for all.
    std::uint64_t bounded_count = 0;
    std::uint32_t reducer = 0;  // how parts are reduced (allreduce/reducer.h); 0: by the mean
    // A robust run learns from honest steps before this one (protection.h) how far an honest
    // contribution is from the average, and the longest average that is applied as it is. 0: any.
    double tau = 0;
    double length_max = 0;
    // Elements of the whole vector, of which this round moves a fragment. 0: the parts cover it.
    std::uint64_t whole_count = 0;
    // The codec of averages of parts whose contributions are sparse: owners add them, and keep what
    // that codec leaves out (allreduce/sparse_sums.h). 0: they gather them.
    std::uint32_t sum_codec = 0;

    bool is_bounded(const PlanPart& part) const {
        return bounded_count == 0 || part.offset < bounded_count;
    }
    bool leaves_out(const PeerId& peer) const {
        return std::binary_search(left_out.begin(), left_out.end(), peer);
    }

    std::uint32_t codec_of(const PlanPart& part) const { return part.codec.value_or(codec); }
    DEDLOC_FIELDS(run,
                  instance,
                  ballot,
                  leader,
                  previous,
                  state,
                  codec,
                  (members, members_max),
                  (parts, parts_max),
                  (standby, members_max),
                  reduce_ms,
                  round_ms,
                  groups,
                  (group_of, members_max),
                  (collectors, members_max),
                  (left_out, members_max),
                  predicted_ms,
                  bounded_count,
                  reducer,
                  tau,
                  length_max,
                  whole_count,
                  sum_codec)
};

inline constexpr std::uint32_t repairs_max = 3;  // of one round

// An owner signs this about one reduced range. Domain "dedloc-part", over the fields below.
struct FinishedPart {
    Digest plan;
    std::uint32_t part = 0;
    std::uint32_t repair = 0;
    std::uint32_t owner = 0;  // index into the plan's members
    Bytes included;           // bits: whose contributions are in it
    Digest digest;            // SHA-256 of the encoded average
    Bytes signature;
    // In a robust round: what those who are in it had committed to (allreduce/commitment.h).
    Digest commitments{};

    bool includes(std::size_t member) const { return base::has_bit(included, member); }
    Bytes signed_bytes() const;
    DEDLOC_FIELDS(plan, part, repair, owner, included, digest, signature, commitments)
};

// The SHA-256 by which a decision, and a plan, is named.
Digest decision_digest(ByteView decision);

// Can an honest owner have signed this, of a plan whose fields have been checked? The part's owner
// has, or after a repair one whom an honest leader may name; and in it are members only. Whether
// the signature holds, and what the bytes are, is not looked at.
bool fits_plan(const FinishedPart& header, const RoundPlan& plan, const Digest& plan_digest);

// FinishedPart::included with nobody in it.
Bytes no_members(const RoundPlan& plan);

// Samples of all members that a commit includes and that weigh, each by the fraction of the
// vector.
double committed_samples(const RoundPlan& plan,
                         const std::vector<FinishedPart>& parts,
                         std::uint64_t vector_count);
// The whole vector has so many elements; the round moves this range of it.
std::uint64_t vector_count(const RoundPlan& plan);
ElementRange moved_range(const RoundPlan& plan);

}  // namespace dedloc::consensus
