// DeferredGradients: what one peer handed in, what a certificate took of it, and what goes into the
// next round.
//
// Promise 2: a sample enters the model at most once, and what a live peer contributed and the
// certificate does not include is deferred to the next step, at most one step stale. So there are
// at most two sums: the fresh one (samples computed at the open step's state) and the deferred one
// (the previous step's samples, on the ranges that were left out). What is older expires and is
// counted.
//
// In a run with fragments each of them has a deferred sum of its own, which waits for the next step
// that moves the fragment.
//
// Thread: one. Pure; cost linear in the vector.

#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dedloc/allreduce/contribution.h"
#include "dedloc/consensus/messages.h"
#include "dedloc/consensus/planted_bugs.h"
#include "dedloc/replica/unsent_gradients.h"

namespace dedloc::replica {

class DeferredGradients {
  public:
    // A vector of [gradients | changes of buffers], of which only the first are deferred. Of more
    // than `samples_max` samples together no round takes a contribution.
    DeferredGradients(std::uint64_t vector_count,
                      consensus::PlantedBugs bugs,
                      std::uint64_t gradients_count,
                      std::uint64_t samples_max)
        : vector_count_(vector_count),
          gradients_count_(gradients_count),
          samples_max_(samples_max),
          bugs_(bugs) {}

    // A codec that codec::is_sparse sends a little of the gradients at a time; the rest is kept
    // (unsent_gradients).
    void send_sparsely(codec::CodecId codec) { unsent_.emplace(gradients_count_, codec); }
    // The rest that is kept so; null: none.
    UnsentGradients* unsent() { return unsent_ ? &*unsent_ : nullptr; }
    const UnsentGradients* unsent() const { return unsent_ ? &*unsent_ : nullptr; }

    // Hands in fresh sums for the open step; combined with what is deferred, which expires where
    // both are too many samples: refused together, they would be so in all rounds to come. Fresh
    // samples of which more are left out than a round takes expire as well.
    // `moved`: what the step moves; empty: the whole vector.
    std::shared_ptr<const allreduce::RoundInput> hand_in(consensus::CounterRange samples,
                                                         std::vector<float> sum,
                                                         consensus::ElementRange moved = {});
    // Sums computed at the state before the open one: they are one step stale already.
    void hand_in_late(consensus::CounterRange samples,
                      std::vector<float> sum,
                      consensus::ElementRange moved = {});

    // A commit of the open step. `mine`: this peer's place in the plan, if it has one; so much it
    // left out of sums as their owner.
    void committed(const consensus::RoundPlan& plan,
                   const consensus::Decision& decision,
                   std::optional<std::size_t> mine,
                   std::vector<allreduce::LeftOut> left_out = {});
    // The step was decided elsewhere and nobody knows what of ours was in it: at most once wins.
    void forget();

    // Whole samples that expired or were forgotten, by the fraction of the vector.
    double samples_expired() const { return samples_expired_; }
    bool has_deferred() const { return !deferred_.empty(); }
    // The fresh samples, by the fraction of the vector that was handed in.
    std::uint64_t fresh_handed_in() const;

  private:
    // Expires fresh samples that no round takes (consensus::check_input).
    void expire_refused(consensus::CounterRange& samples,
                        std::vector<float>& sum,
                        consensus::ElementRange moved);
    // So many elements of the vector, of these samples.
    void expire(consensus::CounterRange samples, std::uint64_t elements);
    void expire_deferred(std::uint64_t moved_from);
    std::vector<float> take_fresh();
    void forget_fresh();
    void defer(consensus::CounterRange samples,
               const std::vector<float>& sum,
               std::vector<consensus::ElementRange> ranges,
               consensus::ElementRange moved);
    consensus::ElementRange all_if_empty(consensus::ElementRange moved) const {
        return moved.count > 0 ? moved : consensus::ElementRange{0, vector_count_};
    }

    std::uint64_t vector_count_;
    std::uint64_t gradients_count_;
    std::uint64_t samples_max_;
    consensus::PlantedBugs bugs_;
    consensus::CounterRange fresh_samples_;
    // The fresh sums: in what was handed in, unless deferred ones were added there.
    std::shared_ptr<const allreduce::RoundInput> handed_in_;
    std::vector<float> fresh_;
    consensus::ElementRange moved_;  // by the open step
    struct Deferred {
        consensus::CounterRange samples;
        std::vector<consensus::ElementRange> ranges;
        std::vector<float> sum;  // of the elements that the step moved
    };
    std::map<std::uint64_t, Deferred> deferred_;  // by where those begin
    double samples_expired_ = 0;
    std::optional<UnsentGradients> unsent_;
};

}  // namespace dedloc::replica
