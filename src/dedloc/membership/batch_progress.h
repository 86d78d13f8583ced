// BatchProgress: how far the whole collaboration is with the batch of the open step.
//
// Everybody computes the same estimate from the same statuses: what the others have accumulated at
// our step, each extrapolated by its own measured speed for a bounded time.
//
// Thread: refresh() the network thread, report_speed() the trainer's; the rest any.

#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "dedloc/base/time.h"
#include "dedloc/membership/pace.h"
#include "dedloc/membership/peer_table.h"

namespace dedloc::membership {

class BatchProgress {
  public:
    // `status_interval`: how often the others say how far they are. `micro`: samples of a
    // micro-batch; 0: each peer has its own.
    BatchProgress(std::uint64_t target, Duration status_interval, std::uint64_t micro = 0);

    // This peer has computed so many samples in so many seconds.
    void report_speed(std::uint64_t samples, double seconds);
    double samples_per_s() const { return samples_per_s_; }
    double micro_batch_s() const { return micro_batch_s_; }
    // The quickest of this process, for so many samples as `micro`. A peer that has handed in tells
    // this one, as others judge its claims by the most that it can have computed (SampleClaims);
    // nobody waits for a micro-batch of it then.
    double quickest_micro_batch_s() const { return quickest_micro_batch_s_; }

    struct Other {
        const KnownPeer* peer;    // a trainer
        bool works_on_open_step;  // what it says of its samples is about our step
        double believed_most;     // of its samples
    };
    void refresh(const std::vector<Other>& others, TimePoint now);

    // `own`: our samples for the open step.
    double samples_everywhere(std::uint64_t own, TimePoint now) const;
    // Nobody can stop in the middle of a micro-batch, so that half of one more is on its way on
    // average, of each peer's own length: full is when the batch will be as near to the target as
    // it can.
    bool is_full(std::uint64_t own, TimePoint now) const;
    // Our share of a batch, by the speeds of all.
    double own_share() const;

  private:
    double target_;
    double age_max_;  // seconds; claims are not extrapolated any further
    double micro_;
    Pace pace_;
    std::atomic<double> samples_per_s_{0};
    std::atomic<double> micro_batch_s_{0};
    std::atomic<double> quickest_micro_batch_s_{0};
    std::atomic<double> samples_of_micro_batch_{0};  // ours
    std::atomic<double> others_samples_{0};
    std::atomic<double> others_per_s_{0};
    std::atomic<double> others_in_micro_batches_{0};  // samples in one of each that computes
    std::atomic<std::int64_t> others_at_ns_{0};
    std::atomic<double> others_speed_{0};  // whatever they do at the moment
};

}  // namespace dedloc::membership
