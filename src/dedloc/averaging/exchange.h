// Exchange: one member's part in the data of one plan. It streams its contribution to the owners,
// reduces the parts it owns, and collects the finished ones.
//
// One stream per (member, owner, repair number): parts go one way in the plan's order, averages
// come back on the same stream as they are ready. An owner waits for a part's contributions until
// all are there, their senders are gone, or the reduce deadline; then it adds them in member order,
// encodes the average once, signs, and sends everybody the same bytes. Aggregators only do that:
// they send no contribution and ask nobody for averages (but, in a grid, for those of
// their group).
//
// A part is averaged when it has come from everybody, so who is far ahead of the slowest one that
// still sends, and will be in time, is not read from: its parts would only take that one's share of
// the owner's line, and the sender's line from averages. What waits at an owner for slower members
// is bounded by reduce_bytes_max (and one part a member) as well. Then who keeps all others waiting
// and sends nothing for an eighth of the reduce deadline is left out of the part that they wait
// for, so that one sleeper does not keep the others' parts out of memory.
//
// A member of whom nothing was in the newest commits (peer_score.h) is waited for like the others
// only if something has come of it in the first quarter of the reduce deadline (grid: eighth).
//
// In a grid (routes.h) a collector is to its group what an owner is: it takes its group's parts,
// for two thirds of the reduce deadline, adds them, sends the sum on to the owner, and passes the
// average back. Who owns for repairs is spoken to directly.
//
// Bytes on the wire for a vector of S encoded bytes and P equal owners: 2 S (P-1)/P up and down.
// Thread: the network thread; arithmetic on workers. Lifetime: stop() before destruction.

#pragma once
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "dedloc/averaging/context.h"
#include "dedloc/averaging/even_sends.h"
#include "dedloc/averaging/reduce.h"
#include "dedloc/averaging/routes.h"
#include "dedloc/links/link_meter.h"
#include "dedloc/links/rates.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::averaging {

// A frozen contribution: sums over samples; empty vector and input for one who only receives.
struct RoundInput {
    consensus::MemberInput input;
    std::vector<float> sum;
};

class Exchange {
  public:
    Exchange(RoundContext& context,
             consensus::Plan plan,
             Digest plan_digest,
             std::shared_ptr<const RoundInput> input);
    ~Exchange();

    void start();
    // Parts get new owners; the caller has checked the leader's signature.
    void add_repair(const Repair& repair);
    // As owner: one member's stream, after its header, which came at `begun`.
    Task<void> serve(std::shared_ptr<p2p::MessageStream> stream,
                     std::uint32_t repair,
                     TimePoint begun);
    void peer_gone(const PeerId& peer);
    Task<void> stop();

    const consensus::Plan& plan() const { return plan_; }
    // Does the plan count on what we bring?
    bool contributes() const { return contributes_; }
    // Nothing more is sent of what we contribute.
    void forget_input() { input_.reset(); }
    const Digest& digest() const { return digest_; }
    TimePoint started() const { return started_; }
    TimePoint reduce_deadline() const {
        return started_ + std::chrono::milliseconds(plan_.reduce_ms);
    }
    // A round like those before has ended by then, and a little more.
    TimePoint usual_end() const {
        return started_ + std::chrono::milliseconds(plan_.reduce_ms) * 3 / 4;
    }
    TimePoint round_deadline() const {
        return started_ + std::chrono::milliseconds(plan_.round_ms);
    }

    const std::map<std::uint32_t, consensus::FinishedPart>& finished() const { return finished_; }
    bool complete() const { return finished_.size() == plan_.parts.size(); }
    // Parts not finished here whose owner's stream has failed.
    std::vector<std::uint32_t> failed_parts() const;
    // Parts not finished here whose owner has failed, or has stopped sending averages.
    std::vector<std::uint32_t> silent_parts() const;
    // Finished parts without somebody who is there and whose contribution other parts include:
    // their owner, or the way to it, was slow. Worth another owner while there is time.
    std::vector<std::uint32_t> lacking_parts() const;
    // Until when a part may be waited for that has not come: its owner's stream lives, and averages
    // come about as regularly as they did. The past: it does not come by itself.
    TimePoint awaited_until(std::uint32_t part) const;
    // The earliest such time of the parts that are missing.
    TimePoint missing_awaited_until() const;
    // The newest sign of life of the plan's leader: the plan, parts and averages from it, and what
    // leader_spoke() was told of.
    TimePoint leader_heard_at() const { return leader_heard_at_; }
    void leader_spoke() { leader_heard_at_ = context_.now(); }
    // Has this repair of the part ended here, whoever is in it?
    bool repaired(std::uint32_t part, std::uint32_t repair) const {
        return ended_.contains({repair, part});
    }
    // On whom the newest reduction of a part hangs: its owner, and from whom it comes to us.
    std::set<std::uint32_t> way_of(std::uint32_t part) const;
    // Somebody found a finished part elsewhere: checks and keeps it.
    Task<bool> adopt(consensus::FinishedPart header, SharedBytes encoded);
    // Is this one of finished()? Then it was looked at here.
    bool has(const consensus::FinishedPart& part) const;
    runtime::Event& changed() { return changed_; }
    // Of an aggregator's plan: parts that this member owns.
    std::size_t owned_parts() const { return reductions_.size(); }
    // What this member's line gave until now; no more is measured.
    links::LinkRates end_measuring();

  private:
    struct Reduction {
        std::uint32_t part = 0;
        std::uint32_t repair = 0;
        bool collects = false;  // the sum goes to the owner, the average comes from there
        TimePoint opened;
        std::map<std::uint32_t, PartInput> inputs;
        std::vector<std::uint32_t> arrival;
        std::set<std::uint32_t> waiting;         // members whose contribution may still come
        std::size_t bytes = 0;                   // held by this reduction
        bool closed = false;                     // reducing or done
        std::unique_ptr<runtime::Event> summed;  // of one that collects: `sum` is there
        ReducedPart sum;
        std::unique_ptr<runtime::Event> done;  // with `encoded`, or it failed
        consensus::FinishedPart header;
        SharedBytes encoded;
    };
    struct Owner {
        std::uint32_t owner = 0;  // of a grid: from whom the average comes to us
        std::uint32_t repair = 0;
        bool failed = false;
    };
    // Of things that come one after the other.
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
    struct Inflow : links::Flow {
        TimePoint begun;
        std::size_t parts = 0;
    };
    using ReductionKey = std::pair<std::uint32_t, std::uint32_t>;  // repair, part

    // exchange_sends.cpp: towards owners; exchange_reduces.cpp: as an owner or collector
    void assign(std::uint32_t owner, std::vector<std::uint32_t> parts, std::uint32_t repair);
    Reduction& open_reduction(std::uint32_t part, std::uint32_t repair);
    void close_if_ready(Reduction& reduction);
    Reduction* oldest_open(std::uint32_t repair);
    Task<void> wait_for_room(std::uint32_t member,
                             std::uint32_t repair,
                             std::shared_ptr<Inflow> inflow);
    // For members; in a grid the owner still waits for what is collected.
    Duration time_to_contribute() const {
        return std::chrono::milliseconds(plan_.reduce_ms) * (routes_.is_grid() ? 2 : 3) / 3;
    }
    Duration part_pace() const;
    bool is_on_schedule() const;
    bool is_far_ahead(const Inflow& inflow) const;
    bool is_gone(std::uint32_t member) const;
    Duration patience_with_one() const;
    Duration time_to_begin() const {
        return std::chrono::milliseconds(plan_.reduce_ms) / (routes_.is_grid() ? 8 : 4);
    }
    bool is_waited_for(std::uint32_t member) const;
    void refuse_input(std::uint32_t member, std::uint32_t repair, std::string why);
    bool only_reduces() const { return me_ && plan_.members[*me_].aggregator; }
    Task<void> reduce(std::shared_ptr<Reduction> reduction);
    void finish(Reduction& reduction, ReducedPart reduced);
    void hold(Reduction& reduction, std::size_t bytes);
    void pass_on(const consensus::FinishedPart& header, const SharedBytes& encoded);
    void fail_to_pass_on(const std::vector<std::uint32_t>& parts);
    Task<void> contribute_own(std::vector<std::uint32_t> parts, std::uint32_t repair);
    Task<void> close_at(TimePoint deadline, std::uint32_t repair);
    Task<void> close_without_doubtful();
    void close_all(std::uint32_t repair, bool collected_only);
    Task<void> talk_to_owner(std::uint32_t owner,
                             std::vector<std::uint32_t> parts,
                             std::uint32_t repair);
    Task<Result<void>> exchange_with(std::uint32_t owner,
                                     std::vector<std::uint32_t> parts,
                                     std::uint32_t repair);
    Task<void> send_parts(std::shared_ptr<p2p::MessageStream> stream,
                          std::uint32_t owner,
                          std::vector<std::uint32_t> parts,
                          std::uint32_t repair,
                          std::shared_ptr<Result<void>> outcome);
    Task<void> send_sums(std::shared_ptr<p2p::MessageStream> stream,
                         std::vector<std::uint32_t> parts,
                         std::shared_ptr<Result<void>> outcome);
    Task<void> receive_parts(std::shared_ptr<p2p::MessageStream> stream,
                             std::uint32_t owner,
                             std::uint32_t repair,
                             std::size_t count,
                             std::shared_ptr<Result<void>> outcome);
    Task<void> read_average(std::shared_ptr<p2p::MessageStream> stream,
                            std::uint32_t owner,
                            std::shared_ptr<SharedBytes> into,
                            std::shared_ptr<Result<void>> outcome);
    Task<void> check_average(std::shared_ptr<p2p::MessageStream> stream,
                             SharedBytes message,
                             std::uint32_t owner,
                             std::uint32_t repair,
                             std::shared_ptr<Result<void>> outcome);
    Task<Result<void>> take_finished(SharedBytes message,
                                     std::uint32_t owner,
                                     std::uint32_t repair);
    Result<void> take_contribution(SharedBytes message, std::uint32_t member, std::uint32_t repair);
    Result<PartInput> check_contribution(const SharedBytes& message,
                                         const PartData& data,
                                         std::uint32_t member,
                                         std::uint32_t repair) const;
    Task<void> read_contributions(std::shared_ptr<p2p::MessageStream> stream,
                                  std::uint32_t member,
                                  std::uint32_t repair,
                                  std::shared_ptr<Inflow> inflow);
    Task<void> write_finished(std::shared_ptr<p2p::MessageStream> stream,
                              std::uint32_t member,
                              std::vector<std::uint32_t> parts,
                              std::uint32_t repair,
                              std::shared_ptr<Inflow> inflow);
    double phase_towards(std::uint32_t owner) const;
    Task<void> wait_for_turn(std::uint32_t owner);
    Task<SharedBytes> encode_own(std::uint32_t part);
    Task<void> watch_line();
    std::optional<std::uint32_t> index_of(const PeerId& peer) const;
    void keep(consensus::FinishedPart header, SharedBytes encoded);
    std::vector<std::uint32_t> parts_for(std::uint32_t member, std::uint32_t repair) const;

    RoundContext& context_;
    consensus::Plan plan_;
    Routes routes_;
    Digest digest_;
    std::shared_ptr<const RoundInput> input_;
    std::optional<std::uint32_t> me_;
    bool contributes_ = false;
    TimePoint started_;
    TimePoint leader_heard_at_;
    std::map<std::uint32_t, Owner> owners_;  // by part: the newest
    std::map<ReductionKey, std::shared_ptr<Reduction>> reductions_;
    std::map<std::uint32_t, consensus::FinishedPart> finished_;
    std::set<ReductionKey> ended_;
    std::size_t opened_ = 0;  // reductions, repairs aside
    std::size_t closed_ = 0;  // of them
    Rhythm arrivals_;         // of averages, from everybody
    std::map<std::uint32_t, links::Flow>
        outflows_;  // to owners, as they say; of an aggregator: to all
    std::map<std::uint32_t, std::shared_ptr<Inflow>> inflows_;  // from members
    std::map<std::uint32_t, TimePoint> arrived_;                // the newest from each member
    std::set<std::uint32_t> gone_;                              // members we lost on the way
    std::set<std::uint32_t> doubtful_;          // members of whom nothing was in the newest commits
    std::map<std::uint32_t, Rhythm> averages_;  // from each owner
    EvenSends even_;  // the streams to the plan's owners; repairs do not wait
    links::Throughput received_;
    links::LinkMeter line_;  // with all that goes over it beside this exchange
    bool measures_ = true;
    runtime::Event changed_;
    runtime::Event room_;  // something that was held is gone
    runtime::Event sent_;  // another part, or a stream has ended
    runtime::Scope scope_;
};

// True if every field of a plan makes sense for a run with these options: members sorted and
// unique, parts in order and covering the vector, each in the codec of its elements, indices and
// durations within bounds.
Ok check_plan(const consensus::Plan& plan, const RoundOptions& options);

// Are these the bytes that the header names, and finite numbers for all of its part? The header
// fits the plan. On a worker.
Task<bool> is_sound(RoundContext& context,
                    const consensus::Plan& plan,
                    consensus::FinishedPart header,
                    SharedBytes encoded);

}  // namespace dedloc::averaging
