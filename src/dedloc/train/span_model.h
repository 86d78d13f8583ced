// SpanModel: a model that lies in plain memory of this process, as own loops want it. The model's
// library keeps the memory; nothing is copied but what a step needs: one sum as long as the
// parameters, and two copies of the buffers.
//
//   SpanModel model(tensors);                 // parameters, then buffers, in the model's order
//   model.place(values, gradients);           // where they lie now: before each step()
//
// Thread: the loop's. Errors: make(): unsupported (a type), bad_input (not finite, whole numbers
// beyond 16,777,216, nothing to train), with the tensor's name.

#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/train/model.h"

namespace dedloc::train {

enum class ElementType { fp32, int64, int32, uint8 };  // uint8: bytes and truth values

struct PlacedTensor {
    std::string name;
    std::uint64_t count = 0;               // elements, in a row
    bool trained = false;                  // else a buffer that is averaged
    bool decays = false;                   // weight decay applies: rank ≥ 2
    std::size_t columns = 0;               // of a matrix; 0: it is none
    double rate_factor = 1;                // of the learning rate
    std::optional<double> weight_decay{};  // its own
    ElementType type = ElementType::fp32;
    void* values = nullptr;
    const float* gradient = nullptr;  // of a trained one, null: there is none
};

// Where tensors lie in the vectors that are averaged: one behind the other, in their order.
run::Layout layout_of(const std::vector<PlacedTensor>& tensors);

class SpanModel final : public Model {
  public:
    static Result<std::unique_ptr<SpanModel>> make(std::vector<PlacedTensor> tensors);

    // One pointer a tensor, in the order of make(). `gradients`: only of the trained ones.
    void place(std::span<void* const> values, std::span<const float* const> gradients);

    run::Layout layout() const override { return layout_; }
    Result<void> check() override;  // Errors: bad_input: a tensor that was placed nowhere
    void load(std::span<const float> parameters, std::span<const float> buffers) override;
    void store(std::span<float> parameters, std::span<float> buffers) const override;
    bool has_gradient() const override;
    bool is_sound(double norm_max) override;
    void add(double scale) override;
    void leave_out() override;
    void forget_gradient() override;
    void take_sum(std::span<float> gradient_sum) override;
    void take_buffers(std::span<float> changes, double scale) override;
    void forget_sum() override { has_sum_ = false; }

  private:
    explicit SpanModel(std::vector<PlacedTensor> tensors);
    void read_buffers(std::span<float> out) const;
    void write_buffers(std::span<const float> values);

    std::vector<PlacedTensor> parameters_;
    std::vector<PlacedTensor> buffers_;
    run::Layout layout_;
    std::vector<float> sum_;  // as long as the parameters once there is one
    bool has_sum_ = false;
    std::vector<float> loaded_buffers_;      // as they were loaded or last taken
    std::vector<float> remembered_buffers_;  // before the present forward pass
};

}  // namespace dedloc::train
