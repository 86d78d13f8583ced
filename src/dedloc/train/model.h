// Model and Samples: what the engine (loop.h) asks of the thing that is trained, over flat fp32
// vectors: parameters first, then float buffers, in the order of layout(). The model lies where its
// owner put it, on whatever device.
//
//   Model    memory: vectors in and out, the present gradient, the sum of gradients. Every loop
//   that
//            takes part offers it.
//   Samples  what computes gradients of numbered samples, so that anyone can compute anyone's
//            again, and what measures the model. Optional: a loop of one's own computes by itself.
//
// A batch is a pure function of (run, peer, counter): sample number `counter` of a peer is the same
// whenever and wherever it is computed.
//
// Thread: one at a time, the loop's. evaluate() may run on a second thread with a model of its own;
// cancel_evaluation(): any. Errors: what the model's library throws goes through.

#pragma once
#include <cmath>
#include <cstdint>
#include <span>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/result.h"
#include "dedloc/collab/samples.h"
#include "dedloc/run/layout.h"

namespace dedloc::train {

class Model {
  public:
    virtual ~Model() = default;
    virtual run::Layout layout() const = 0;

    // Is it still the model that joined? Asked before each step. What can be followed (tensors that
    // moved) is followed. Errors: bad_input, for people: what changed, and what to do.
    virtual Result<void> check() { return {}; }

    // Vectors -> model. From now on gradients are computed here, and buffers change from here. The
    // present gradient is forgotten, the sum stays.
    virtual void load(std::span<const float> parameters, std::span<const float> buffers) = 0;
    // Model -> vectors.
    virtual void store(std::span<float> parameters, std::span<float> buffers) const = 0;

    // The present gradient, of the MEAN loss of one batch, where somebody else computes it: is
    // there any; is it finite, and no longer than `norm_max` (0: any)?
    virtual bool has_gradient() const { return false; }
    virtual bool is_sound(double /*norm_max*/) { return true; }
    // scale × the present gradient into the sum; the gradient is forgotten, the buffers stay.
    virtual void add(double /*scale*/) {}
    // Forgets the present gradient, and takes the buffers back to where they were before it.
    virtual void leave_out() {}
    virtual void forget_gradient() {}

    // Moves the sum of gradients out (as long as the parameters); it begins anew at zero.
    virtual void take_sum(std::span<float> gradient_sum) = 0;
    // scale × what became of the buffers since load() or the last call. A change, not the value:
    // what stays is exactly zero in every codec, and what a codec rounds away of a change is in the
    // next one again.
    virtual void take_buffers(std::span<float> changes, double scale) = 0;
    virtual void forget_sum() = 0;

    // Both, of so many samples at this state.
    void take(std::span<float> gradient_sum, std::span<float> changes, std::uint64_t samples) {
        take_sum(gradient_sum);
        take_buffers(changes, static_cast<double>(samples));
    }
};

struct GradientReport {
    double loss_sum = 0;     // sum over the samples
    double correct_sum = 0;  // where the task counts correct answers
    // False: loss or gradient is not, or it is beyond limit_norm(), and nothing was added.
    bool finite = true;
};

class Samples {
  public:
    virtual ~Samples() = default;
    // The global step of what is loaded from now on. Only what computes differently from step to
    // step wants to know.
    virtual void at_step(std::uint64_t /*global_step*/) {}
    // Bounds one sample's gradient (0: any): a micro-batch of m whose mean is longer than that
    // by √m is left out like one that is not finite.
    virtual void limit_norm(double /*norm_max*/) {}
    // Adds the SUM over these samples of their gradients to the model's sum.
    virtual Result<GradientReport> accumulate(collab::CounterRange samples) = 0;
    // From now on the samples are `author`'s, so that a validator can compute another peer's
    // gradient again. Nothing is summed when it is called. Errors: cannot_compute: not with this.
    virtual Result<void> compute_as(const PeerId& author);
    // Does a range's gradient depend on how it is cut into micro-batches, as with BatchNorm?
    virtual bool depends_on_micro_batch() const = 0;
    virtual Result<collab::Evaluation> evaluate() = 0;
    // From now on evaluate() ends soon, as cancelled; one that is running, too.
    virtual void cancel_evaluation() {}
};

// Everything that is built in is both.
class SampledModel : public Model, public Samples {
  public:
    bool depends_on_micro_batch() const override { return layout().buffers_count > 0; }
};

// A run takes so much of one sample's gradient, so that a batch of `target` is as long as
// averaging.norm_max: by chance means of fewer samples are longer.
inline double norm_max_of_one(double norm_max, std::uint64_t target) {
    return norm_max * std::sqrt(static_cast<double>(target));
}
inline double norm_max_of_mean(double norm_max_of_one, std::uint64_t samples) {
    return norm_max_of_one / std::sqrt(static_cast<double>(samples));
}

// The present gradient, a mean over `samples`, into the sum, or left out if it is not sound.
GradientReport add_gradient(Model& model,
                            std::uint64_t samples,
                            double mean_loss,
                            double norm_max_of_one);

}  // namespace dedloc::train
