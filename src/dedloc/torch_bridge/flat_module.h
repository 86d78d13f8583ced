// FlatModule: a torch::nn::Module seen as two flat fp32 vectors, parameters and buffers.
//
// Order: registration, depth first, as named_parameters() and named_buffers() give it; a tensor
// that is registered twice (tied weights) is there once. Parameters that need no gradient stay out
// of the vectors, and so do buffers that are constants (below): both must be the same on all peers
// by construction.
//
// Buffers of whole numbers (BatchNorm's counter, a queue's pointer, flags) are in the vector like
// float ones and move by the average of their changes, fractions included; the module sees the
// nearest whole number. fp32 holds whole numbers up to 16,777,216 exactly; a counter beyond that
// is right in its first seven digits. Buffers of more whole numbers than integer_elements_max
// (tables, masks) are taken for constants.
//
// Sparse gradients (an embedding's) are made dense: what is averaged is the whole vector.
// Weight decay applies to parameters of rank ≥ 2 (biases and norms have rank 1).
//
// Cost: one copy to or from the CPU a call, whatever the device. Thread: one at a time.
// Errors: unsupported  a parameter or float buffer that is not fp32; bad_input  one whose numbers
//         are not finite, as means with them would not be, or whole numbers beyond 16,777,216; a
//         private buffer that is none. All say which.

#pragma once
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/run/layout.h"
#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::torch_bridge {

// A table or a mask has more elements; a counter, a pointer or an observer fewer.
inline constexpr std::int64_t integer_elements_max = 1024;

enum class BufferKind {
    averaged,    // in the vector, the state and checkpoints
    constant,    // the same on all peers; compared, never sent
    kept_apart,  // this peer's own: a queue of keys
};

struct FlatOptions {
    // Names of buffers that each peer keeps to itself.
    std::vector<std::string> private_buffers{};
    // BatchNorm counts batches also where it has a momentum, and nothing reads that counter: it
    // stays out of the vector, as a number more to average for each layer, unless this is true.
    bool unread_counters = false;
};

// Only where there is a buffer: `tensor` is defined and not empty.
BufferKind kind_of_buffer(const std::string& name,
                          const torch::Tensor& tensor,
                          const std::vector<std::string>& private_buffers);

class FlatModule {
  public:
    static Result<FlatModule> make(std::shared_ptr<torch::nn::Module> module,
                                   const FlatOptions& options = {});

    const run::Layout& layout() const { return layout_; }
    // Is it still the module that this was made of? Other strides and another device are followed.
    // Errors: bad_input: other tensors, another type, layers frozen or thawed, values changed since
    // load(), which would be undone.
    Result<void> check();
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
    // pass on the device, one number to the CPU. Sparse ones are dense afterwards.
    bool gradients_are_sound(double norm_max);
    // Adds scale × .grad into sums of our own, on the device, and forgets .grad.
    void add_gradients(double scale);
    // Copies those sums and begins anew.
    void take_sums(std::span<float> out);
    // Buffers as they are now, and back to them: a forward pass moves BatchNorm's. Private ones are
    // left alone.
    void remember_buffers();
    void restore_buffers();
    void forget_gradients();
    void forget_sums();

  private:
    FlatModule(std::shared_ptr<torch::nn::Module> module) : module_(std::move(module)) {}
    Result<void> take_parameters(std::set<const void*>& seen);
    Result<void> take_buffers(std::set<const void*>& seen, const FlatOptions& options);
    void make_gradients_dense();
    double gradients_norm() const;  // NaN or infinite if one of them is
    std::vector<float> as_the_module_holds(std::span<const float> buffers) const;
    void remember_registration();
    void remember_versions();

    std::shared_ptr<torch::nn::Module> module_;
    torch::Device device_ = torch::kCPU;
    std::vector<torch::Tensor> parameters_;
    std::vector<torch::Tensor> buffers_;
    std::vector<torch::Tensor> remembered_buffers_;
    std::vector<float> taken_buffers_;  // as they were loaded or last taken
    std::vector<torch::Tensor> sums_;   // like parameters_; undefined (or empty): zero
    run::Layout layout_;
    // All parameters as they were registered, and whether they were trained.
    struct Registered {
        std::string name;
        const void* tensor = nullptr;
        bool trained = false;
        torch::ScalarType type = torch::kFloat32;
    };
    std::vector<Registered> registered_;
    std::vector<std::int64_t> versions_;  // of parameters_, since they were loaded
};

// Makes a model whose state has no buffers ready to answer: moves it to the device, loads the
// parameters, leaves training. Errors: those of FlatModule; bad_input: sizes that do not fit.
Result<void> load_for_evaluation(std::shared_ptr<torch::nn::Module> model,
                                 const torch::Device& device,
                                 std::span<const float> parameters,
                                 std::span<const float> buffers);

// The parameters of a model whose state has no buffers. Errors: those of FlatModule.
Result<std::vector<float>> parameters_of(std::shared_ptr<torch::nn::Module> model);

}  // namespace dedloc::torch_bridge
