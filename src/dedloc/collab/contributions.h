// Contributions: what this peer has computed, from the first micro-batch to the certificate.
//
//   fresh      samples computed at the open step's state; handed in when the step is due
//   ahead      samples computed while a step is being made, at the state before it: they become the
//              next step's when that is done (averaging.delayed)
//   deferred   what was handed in and a certificate does not include (deferred_gradients.h)
//
// Thread: the network thread, except where a method says "any thread".

#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "dedloc/base/time.h"
#include "dedloc/collab/lab.h"
#include "dedloc/replica/deferred_gradients.h"

namespace dedloc::collab {

class Contributions {
  public:
    explicit Contributions(replica::DeferredGradients deferred) : deferred_(std::move(deferred)) {}

    void send_sparsely(codec::CodecId codec,
                       std::function<void(const FrozenContribution&)> on_frozen) {
        deferred_.send_sparsely(codec);
        on_frozen_ = std::move(on_frozen);
    }
    replica::UnsentGradients* unsent() { return deferred_.unsent(); }
    bool has_unsent() const { return deferred_.unsent() && deferred_.unsent()->has_any(); }

    // Any thread: a micro-batch was computed. True: for the open step.
    bool add(std::uint64_t samples, double loss_sum);
    // Any thread: for the open step; what was computed ahead.
    std::uint64_t samples() const { return samples_; }
    std::uint64_t samples_ahead() const { return samples_ahead_; }
    // Any thread: mean loss of the open step, or of what was handed in last.
    double loss() const;

    // Any thread: what comes from now on was computed ahead.
    void compute_ahead();
    bool computes_ahead() const { return ahead_ == Ahead::yes; }
    // Any thread: so many were, and are forgotten; until this is said, they count for nothing.
    void forget_ahead(std::uint64_t samples);
    // Samples that were forgotten since this was asked last; all of them.
    std::uint64_t take_forgotten() { return forgotten_.exchange(0); }
    std::uint64_t forgotten() const { return forgotten_; }

    // Any thread: forgets what was computed and not handed in. Returns how many samples it had.
    std::uint64_t take_all();

    // The trainer goes on from a new state, with or without what it computed ahead.
    void begin_step(bool keep_ahead);

    // Freezes what was computed for the open step, with what is deferred.
    std::shared_ptr<const allreduce::RoundInput> hand_in(consensus::CounterRange samples,
                                                         std::vector<float> sum,
                                                         double loss_sum,
                                                         TimePoint now,
                                                         consensus::ElementRange moved = {});
    // The gradient was computed for the step before the open one.
    void hand_in_late(consensus::CounterRange samples,
                      std::vector<float> sum,
                      consensus::ElementRange moved = {});
    // Nothing: for the open step nothing is handed in.
    const std::optional<consensus::MemberInput>& handed_in() const { return handed_in_; }
    std::optional<TimePoint> fresh_handed_in_at() const;
    // When we handed in what `plan` has of us as member `mine`.
    std::optional<TimePoint> handed_in_at(std::optional<std::size_t> mine) const;

    // Which member of `plan` brings what we have handed in.
    std::optional<std::size_t> place_in(const consensus::RoundPlan& plan, const PeerId& us) const;
    // The open step is committed; `mine` is our place in its plan. What is not in it is deferred;
    // what we left out of its sums waits as well.
    void committed(const consensus::RoundPlan& plan,
                   const consensus::Decision& decision,
                   std::optional<std::size_t> mine,
                   std::vector<allreduce::LeftOut> left_out = {});
    // Nobody knows what of ours was in it: at most once wins.
    void forget();
    // Drops what was handed in and would be refused again. Returns how many fresh samples it had.
    std::uint64_t forget_refused();

    // Mean loss of our fresh samples in that commit; nothing: it has none.
    std::optional<double> loss_in(const consensus::Instance& commit) const;
    std::uint64_t committed_samples() const { return committed_samples_; }
    double samples_expired() const { return deferred_.samples_expired(); }

  private:
    enum class Ahead { no, yes, lost };  // lost: until the trainer has forgotten it too

    replica::DeferredGradients deferred_;
    std::function<void(const FrozenContribution&)> on_frozen_;  // for tests
    std::atomic<std::uint64_t> samples_{0};
    std::atomic<double> loss_sum_{0};
    std::mutex ahead_mutex_;  // who moves them and who adds to them must not meet
    std::atomic<Ahead> ahead_{Ahead::no};
    std::atomic<std::uint64_t> samples_ahead_{0};
    double loss_ahead_ = 0;
    std::atomic<std::uint64_t> forgotten_{0};  // by the trainer, not taken yet
    std::optional<consensus::MemberInput> handed_in_;
    TimePoint handed_in_at_;
    std::atomic<double> handed_in_loss_{0};
    // The newest commit with fresh samples of ours in it, and their loss.
    std::optional<consensus::Instance> contributed_to_;
    double contributed_loss_ = 0;
    std::uint64_t committed_samples_ = 0;
};

// Something that member `member` handed in is in the step.
bool is_in(const consensus::Decision& decision,
           const consensus::RoundPlan& plan,
           std::size_t member);

}  // namespace dedloc::collab
