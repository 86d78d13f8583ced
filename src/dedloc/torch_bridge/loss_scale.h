// LossScale: what a loss is multiplied by before its backward pass in fp16, so that small gradients
// do not vanish below 6e-8. Powers of two, so that dividing by it again changes no bit. It is
// halved when a gradient was not finite, and doubled after many that were (Micikevicius et al.
// 1710.03740).
//
// Thread: one at a time.

#pragma once
#include <cstdint>

namespace dedloc::torch_bridge {

class LossScale {
  public:
    static constexpr double start = 65'536;
    static constexpr double scale_max =
        16'777'216;  // beyond it a loss of 1 leaves fp32's range soon
    static constexpr std::uint64_t sound_in_a_row = 2000;

    // 1: nothing is scaled, and nothing changes.
    explicit LossScale(double first) : value_(first), is_on_(first > 1) {}

    double value() const { return value_; }
    void sound() {
        if (!is_on_ || ++sound_ < sound_in_a_row) return;
        sound_ = 0;
        if (value_ < scale_max) value_ *= 2;
    }
    // False: it is 1 already, so that the gradient itself is not finite.
    bool halve() {
        sound_ = 0;
        if (value_ <= 1) return false;
        value_ /= 2;
        return true;
    }

  private:
    double value_;
    bool is_on_;
    std::uint64_t sound_ = 0;
};

}  // namespace dedloc::torch_bridge
