// Transfer: what is constant about the exchange of one plan at one member, and what its parts
// share: the plan and its routes, this member's place, its contribution, the plan's times.
//
// Thread: the network thread.

#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "dedloc/allreduce/contribution.h"
#include "dedloc/allreduce/environment.h"
#include "dedloc/allreduce/routes.h"
#include "dedloc/runtime/event.h"

namespace dedloc::allreduce {

using ReductionKey = std::pair<std::uint32_t, std::uint32_t>;  // repair, part

// Things that come one after the other keep a rhythm.
struct Rhythm {
    TimePoint newest;
    Duration gap{0};  // the longest between two

    void beat(TimePoint now) {
        gap = std::max<Duration>(gap, now - newest);
        newest = now;
    }
    // Until when the next one may be waited for.
    TimePoint awaited_until(Duration least) const {
        return newest + std::max<Duration>(gap * 2, least);
    }
};

struct OwnCommitment;

struct Transfer {
    Transfer(const TransferEnvironment& environment_of,
             TransferState& shared,
             consensus::RoundPlan of,
             const Digest& plan_digest,
             std::shared_ptr<const RoundInput> brought)
        : environment(environment_of),
          state(shared),
          plan(std::move(of)),
          routes(plan),
          digest(plan_digest),
          input(std::move(brought)),
          me(index_of(environment.me())),
          contributes(me && input && !plan.members[*me].input.is_empty()),
          started(environment.now()),
          leader_heard_at(started),
          committed_event(environment.node.executor) {}
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    const TransferEnvironment& environment;
    TransferState& state;
    const consensus::RoundPlan plan;
    const Routes routes;
    const Digest digest;
    std::shared_ptr<const RoundInput> input;  // null: nothing (more) is sent of it
    const std::optional<std::uint32_t> me;
    const bool contributes;  // does the plan count on what we bring?
    const TimePoint started;
    TimePoint leader_heard_at;
    // Our commitment in a robust round, when `committed_event` is set; null: we bring nothing.
    std::shared_ptr<const OwnCommitment> committed{};
    runtime::Event committed_event;
    // Set once a nonce is revealed: the members that had committed by then. No other's
    // contribution is reduced after that, or it could be chosen by the draw.
    std::optional<std::set<std::uint32_t>> open_to{};

    // Our contribution to parts that are gathered, encoded: it is sent first, and then put into the
    // averages that come back without it.
    std::map<std::uint32_t, SharedBytes> encoded_own{};

    bool commits() const { return contributes && environment.options.proves; }
    TimePoint now() const { return environment.now(); }
    void leader_spoke() { leader_heard_at = now(); }
    TimePoint reduce_deadline() const {
        return started + std::chrono::milliseconds(plan.reduce_ms);
    }
    TimePoint round_deadline() const { return started + std::chrono::milliseconds(plan.round_ms); }
    bool only_reduces() const { return me && plan.members[*me].aggregator; }
    std::optional<std::uint32_t> index_of(const PeerId& peer) const {
        for (std::size_t i = 0; i < plan.members.size(); ++i)
            if (plan.members[i].peer == peer) return static_cast<std::uint32_t>(i);
        return std::nullopt;
    }
};

// A part of our contribution, as it travels. `transfer.input` is there.
Task<SharedBytes> encode_own(Transfer& transfer, std::uint32_t part);
// The same with nothing left out, in fp32, for the sum of its owner.
SharedBytes own_whole(const Transfer& transfer, std::uint32_t part);

}  // namespace dedloc::allreduce
