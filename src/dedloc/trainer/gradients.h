// Gradients: what an own loop (own_loop.h) asks of the model that it trains. The model lies where
// its owner put it, on whatever device; everything here is fp32, parameters first, then the
// buffers, in the order of layout().
//
// Whoever implements it keeps a running sum of gradients beside the model's present gradient, and
// the buffers as they were before the present forward pass.
//
// Thread: the loop's own, one at a time. Errors: what the model's library throws goes through.

#pragma once
#include <cstdint>
#include <span>

#include "dedloc/collab/learner.h"

namespace dedloc::trainer {

class Gradients {
  public:
    virtual ~Gradients() = default;
    virtual const run::Layout& layout() const = 0;

    // Vectors -> model. From now on buffers change from here. Forgets the present gradient.
    virtual void load(std::span<const float> parameters, std::span<const float> buffers) = 0;
    // Model -> vectors.
    virtual void store(std::span<float> parameters, std::span<float> buffers) const = 0;

    // The present gradient, of the MEAN loss of one batch: is there any; is it finite, and no
    // longer than `norm_max` (0: any)?
    virtual bool has_gradient() const = 0;
    virtual bool is_sound(double norm_max) = 0;
    // scale × the present gradient into the sum; the gradient is forgotten, the buffers stay.
    virtual void add(double scale) = 0;
    // Forgets the present gradient, and takes the buffers back to where they were before it.
    virtual void leave_out() = 0;
    virtual void forget_gradient() = 0;

    // The sum, and `samples` × what became of the buffers since load() or the last take(). Both
    // begin anew.
    virtual void take(std::span<float> gradient_sum,
                      std::span<float> buffers_sum,
                      std::uint64_t samples) = 0;
    virtual void forget_sum() = 0;
};

}  // namespace dedloc::trainer
