// ModuleModel: a libtorch module as train::Model: what is asked of the model goes to a FlatModule.
//
// Thread: one at a time. Errors: what libtorch throws; bad_input: it is not what joined any more.

#pragma once
#include <utility>

#include "dedloc/torch_bridge/flat_module.h"
#include "dedloc/train/model.h"

namespace dedloc::torch_bridge {

// `Base`: train::Model or train::SampledModel.
template <typename Base>
class OverModule : public Base {
  public:
    explicit OverModule(FlatModule flat) : flat_(std::move(flat)) { flat_.remember_buffers(); }

    run::Layout layout() const override { return flat_.layout(); }
    Result<void> check() override { return flat_.check(); }
    void load(std::span<const float> parameters, std::span<const float> buffers) override {
        flat_.load(parameters, buffers);
        flat_.forget_gradients();
        flat_.remember_buffers();
    }
    void store(std::span<float> parameters, std::span<float> buffers) const override {
        flat_.store(parameters, buffers);
    }
    bool has_gradient() const override { return flat_.has_gradients(); }
    bool is_sound(double norm_max) override { return flat_.gradients_are_sound(norm_max); }
    void add(double scale) override {
        flat_.add_gradients(scale);
        flat_.remember_buffers();
    }
    void leave_out() override {
        flat_.forget_gradients();
        flat_.restore_buffers();
    }
    void forget_gradient() override { flat_.forget_gradients(); }
    void take_sum(std::span<float> gradient_sum) override { flat_.take_sums(gradient_sum); }
    void take_buffers(std::span<float> changes, double scale) override {
        flat_.take_buffer_changes(changes, scale);
    }
    void forget_sum() override { flat_.forget_sums(); }

  protected:
    FlatModule flat_;
};

using ModuleModel = OverModule<train::Model>;

}  // namespace dedloc::torch_bridge
