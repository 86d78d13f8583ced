// ExpertBackend: one expert as its server sees it, whatever computes it: libtorch, or plain loops.
//
// Every call comes from the server's device thread, one at a time. A backward call computes the
// forward pass again (nothing is kept between calls), returns the gradients of the inputs, and
// updates the expert by its own optimizer: experts learn where they live, asynchronously. The two
// halves of it are calls of their own, so that the server may bound an update before it is made.
//
// Errors: cannot_compute (not finite, no memory): the expert is then as it was.

#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dedloc/experts/schema.h"
#include "dedloc/experts/uid.h"
#include "dedloc/state/snapshot.h"

namespace dedloc::experts {

struct ExpertGradient {
    std::vector<Tensor> inputs;
    std::vector<float> parameters;  // finite; the sum over all rows
};

class ExpertBackend {
  public:
    virtual ~ExpertBackend() = default;

    virtual const ExpertSchema& schema() const = 0;
    // Tensors fit the schema; what comes back does, too.
    virtual Result<std::vector<Tensor>> forward(const std::vector<Tensor>& inputs) = 0;
    virtual Result<ExpertGradient> gradient(const std::vector<Tensor>& inputs,
                                            const std::vector<Tensor>& output_gradients) = 0;
    // Makes an update by a gradient of the parameters.
    virtual void apply(std::span<const float> gradient) = 0;
    // Both: a backward call.
    Result<std::vector<Tensor>> backward(const std::vector<Tensor>& inputs,
                                         const std::vector<Tensor>& output_gradients) {
        DEDLOC_TRY(ExpertGradient computed, gradient(inputs, output_gradients));
        apply(computed.parameters);
        return std::move(computed.inputs);
    }

    // Parameters and optimizer state; with updates() all that makes the expert go on.
    virtual std::vector<state::Section> snapshot() const = 0;
    // bad_input: sections of another expert; it is then as it was.
    virtual Ok load(const std::vector<state::Section>& sections, std::uint64_t updates) = 0;
    virtual std::uint64_t updates() const = 0;
    // Memory of parameters and optimizer state.
    virtual std::uint64_t bytes() const = 0;
};

// A fresh expert; the same on every machine for the same name.
using ExpertFactory = std::function<Result<std::unique_ptr<ExpertBackend>>(const ExpertUid& uid)>;

}  // namespace dedloc::experts
