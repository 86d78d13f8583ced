// FlatModule: a torch::nn::Module seen as two flat fp32 vectors, parameters and float buffers.
//
// Order: registration, depth first, as named_parameters() and named_buffers() give it; a tensor
// that is registered twice (tied weights) is there once. Integer buffers (num_batches_tracked) and
// parameters that need no gradient stay out of the vectors: they must be the same on all peers by
// construction.
// Weight decay applies to parameters of rank ≥ 2 (biases and norms have rank 1).
//
// Cost: one copy to or from the CPU a call, whatever the device. Thread: one at a time.
// Errors: unsupported  a parameter or float buffer that is not fp32; bad_input  one whose numbers
//         are not finite, as means with them would not be; both say which.

#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/collab/learner.h"
#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::torch_bridge {

class FlatModule {
  public:
    static Result<FlatModule> make(std::shared_ptr<torch::nn::Module> module);

    const collab::Layout& layout() const { return layout_; }
    torch::nn::Module& module() const { return *module_; }
    torch::Device device() const { return device_; }

    // Vector -> module, module -> vector. Sizes are those of the layout.
    void load(std::span<const float> parameters, std::span<const float> buffers);
    void store(std::span<float> parameters, std::span<float> buffers) const;
    // scale × what became of each buffer since load() or the last call: exactly zero where nothing
    // did.
    void take_buffer_changes(std::span<float> out, double scale);

    // Copies the parameters' .grad (zeros where there is none) and forgets it: it is undefined
    // then, as after libtorch's zero_grad().
    void take_gradients(std::span<float> out);
    bool has_gradients() const;  // any
    // Are all of the parameters' .grad finite, and no longer together than `norm_max` (0: any)? One
    // pass on the device, one number to the CPU.
    bool gradients_are_sound(double norm_max) const;
    // Adds scale × .grad into sums of our own, on the device, and forgets .grad.
    void add_gradients(double scale);
    // Copies those sums and begins anew.
    void take_sums(std::span<float> out);
    // Buffers as they are now, and back to them: a forward pass moves BatchNorm's.
    void remember_buffers();
    void restore_buffers();
    void forget_gradients();
    void forget_sums();

  private:
    FlatModule(std::shared_ptr<torch::nn::Module> module) : module_(std::move(module)) {}
    double gradients_norm() const;  // NaN or infinite if one of them is

    std::shared_ptr<torch::nn::Module> module_;
    torch::Device device_ = torch::kCPU;
    std::vector<torch::Tensor> parameters_;
    std::vector<torch::Tensor> buffers_;
    std::vector<torch::Tensor> remembered_buffers_;
    std::vector<float> taken_buffers_;  // as they were loaded or last taken
    std::vector<torch::Tensor> sums_;   // like parameters_; undefined (or empty): zero
    collab::Layout layout_;
};

}  // namespace dedloc::torch_bridge
