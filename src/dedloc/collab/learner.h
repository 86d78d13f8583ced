// Learner: what collab asks of the thing that is trained, over flat fp32 vectors. torch_bridge
// implements it with libtorch; the lab and the simulator with a quadratic bowl.
//
// A batch is a pure function of (run, peer, counter): sample number `counter` of a peer is the same
// whenever and wherever it is computed, so that anyone can recompute anyone's gradient (but for
// local updates, local_learner.h).
//
// Thread: one thread at a time (the trainer's). evaluate() may run on a second thread with a
// Learner of its own; cancel_evaluation(): any.

#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/result.h"
#include "dedloc/consensus/member_input.h"
#include "dedloc/run/layout.h"

namespace dedloc::collab {

// Samples [begin, end) of one peer's own sequence.
using consensus::CounterRange;

struct GradientReport {
    double loss_sum = 0;     // sum over the samples
    double correct_sum = 0;  // where the task counts correct answers
    // False: loss or gradient is not, or it is beyond limit_norm(), and nothing was added.
    bool finite = true;
};

struct Evaluation {
    double loss = 0;      // mean over held-out samples
    double accuracy = 0;  // fraction, NaN where the task has none
    std::uint64_t samples = 0;
};

class Learner {
  public:
    virtual ~Learner() = default;
    virtual run::Layout layout() const = 0;
    // The run's starting point (only the host asks; others download it).
    virtual void initial(std::span<float> parameters, std::span<float> buffers) = 0;
    // The global step of what is loaded from now on. Only who computes differently from step to
    // step wants to know.
    virtual void at_step(std::uint64_t /*global_step*/) {}
    // Bounds one sample's gradient (0: any): a micro-batch of m whose mean is longer than that
    // by √m is left out like one that is not finite. A learner that makes no gradients for the run
    // does not need it.
    virtual void limit_norm(double /*norm_max*/) {}
    // ... so that a batch of `target` is as long as the run takes (averaging.norm_max): by chance
    // means of fewer samples are longer.
    static double norm_max_of_one(double norm_max, std::uint64_t target) {
        return norm_max * std::sqrt(static_cast<double>(target));
    }
    // From now on gradients are computed at this point. buffers start a global step from here.
    virtual void load(std::span<const float> parameters, std::span<const float> buffers) = 0;
    // The same in the middle of an accumulation: what was accumulated stays.
    virtual void move_to(std::span<const float> parameters, std::span<const float> buffers) = 0;
    // Adds the SUM over the samples of their gradients into the learner's own accumulator (on its
    // device); nothing is copied yet.
    virtual Result<GradientReport> accumulate(CounterRange samples) = 0;
    // Moves the accumulated sum into gradient_sum (parameters_count) and samples × (the present
    // buffers - those loaded or last taken) into buffers_sum (buffers_count); the accumulator is
    // zero afterwards. A change, not the value: what stays is exactly zero in every codec, and what
    // a codec rounds away of a change is in the next one again.
    virtual void take(std::span<float> gradient_sum,
                      std::span<float> buffers_sum,
                      std::uint64_t samples) = 0;
    // From now on the samples are `author`'s, so that a validator can compute another peer's
    // gradient again. Nothing is accumulated when it is called. Errors: cannot_compute: not with
    // this learner.
    virtual Result<void> compute_as(const PeerId& author);
    // Does a range's gradient depend on how it is cut into micro-batches, as with BatchNorm?
    virtual bool depends_on_micro_batch() const { return layout().buffers_count > 0; }
    virtual Result<Evaluation> evaluate() = 0;
    // From now on evaluate() ends soon, as cancelled; one that is running, too.
    virtual void cancel_evaluation() {}
};

inline Result<void> Learner::compute_as(const PeerId&) {
    return make_error(ErrorKind::cannot_compute,
                      "this task cannot compute another peer's samples again: write 'check = 0' "
                      "into the run file's [robust], and no gradients are checked");
}

}  // namespace dedloc::collab
