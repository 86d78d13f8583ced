// StepDriver: what a loop that trains does next, and the book of what it has computed since it last
// handed in. It neither computes nor waits, so that one driver serves all loops: the trainer's
// thread, own loops, and the peers of the simulator, which live in virtual time.
//
//   while (…) switch (driver.next()) {
//       case Next::compute: …; driver.computed(range, report, seconds);
//       case Next::hand_in: step(driver.hand_in(ahead, take_sums)); if (!ahead) wait for it
//       case Next::wait:    // a step is made beside us; the next one needs nothing more of ours
//       case Next::end:     // over: hand in what driver.samples() still has, and go
//   }
//   driver.ended(outcome):  move_to() the state that came out if true, else begin_at() it
//                           (accumulation.h)
//
// Thread: one at a time. Lifetime: the collaboration outlives it.

#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/collab/collaboration.h"
#include "dedloc/train/model.h"

namespace dedloc::train {

class StepDriver {
  public:
    enum class Next { compute, hand_in, wait, end };
    using TakeSums = std::function<void(
        std::span<float> gradient_sum, std::span<float> buffers_sum, std::uint64_t samples)>;

    // `first_sample`: the number of the first sample that is computed. `fragments`: the run's.
    StepDriver(collab::Collaboration& collaboration,
               const run::Layout& layout,
               std::uint64_t first_sample,
               std::uint64_t fragments = 1)
        : collaboration_(&collaboration),
          parameters_count_(layout.parameters_count),
          vector_count_(layout.vector_count()),
          samples_{first_sample, first_sample},
          fragments_(fragments > 1 ? fragments : 0, Fragment{.samples = samples_}) {}

    Next next() const;
    const collab::CounterRange& samples() const { return samples_; }
    // Samples, or local steps of fragments that have not been moved since, that must not be lost
    // when the loop goes on from the next state.
    bool has_progress() const;
    bool in_flight() const { return in_flight_; }
    // True when a trainer of a robust run should compute another's contribution again: once a step,
    // before its first sample, and never twice without a sample in between. A peer that did all the
    // checks that wait would bring nothing meanwhile, and lose its vote.
    bool begins_check();

    // Counts samples whose gradients are in the sums, and tells the collaboration. `range` begins
    // where samples() ends.
    void computed(collab::CounterRange range, const GradientReport& report, double seconds);
    // Samples whose gradient is not finite, or too long.
    void left_out(collab::CounterRange range);
    // The sums are lost: the samples up to `next_sample` count for nothing.
    void forget(std::uint64_t next_sample);

    // The contribution for collaboration.step(), of what there is. `ahead`: the loop computes on
    // while that is made. `take` is called if there are samples. `step`: of the state that the loop
    // computes at, whose fragment is handed in.
    collab::Contribution hand_in(bool ahead, const TakeSums& take, std::uint64_t step = 0);
    // The loop goes on from the state that the step leads to, before that is made: what is computed
    // from now on is for the step after (Contribution::on_expected).
    void goes_ahead() { ahead_ = true; }
    // True if what was computed meanwhile goes into the next step. Else it is forgotten: the loop
    // begins anew at the new state.
    bool ended(const Result<collab::StepOutcome>& outcome);

  private:
    // Samples that were computed since a fragment was handed in.
    struct Fragment {
        collab::CounterRange samples;
        double loss_sum = 0;
        double correct_sum = 0;
    };
    void begin_anew(std::uint64_t next_sample);
    void add_to_fragments();
    void set_sums(collab::Contribution& contribution, std::uint64_t step);
    collab::WaitingSamples waiting() const;

    collab::Collaboration* collaboration_;
    std::uint64_t parameters_count_;
    std::uint64_t vector_count_;
    // The running sums are of samples [samples_.begin, samples_.end).
    collab::CounterRange samples_;
    std::vector<Fragment> fragments_;  // empty: the vector is moved as a whole
    double loss_sum_ = 0;
    double correct_sum_ = 0;
    bool in_flight_ = false;
    bool ahead_ = false;
    bool has_checked_ = false;      // in this step, or since it last brought something
    bool brought_nothing_ = false;  // in the newest hand-in
};

}  // namespace dedloc::train
