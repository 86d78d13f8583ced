#include "dedloc/torch_bridge/loss_scale.h"

#include <gtest/gtest.h>

namespace dedloc::torch_bridge {
namespace {

TEST(LossScale, halves_down_to_one_and_says_when_it_cannot) {
    LossScale scale(4);
    EXPECT_TRUE(scale.halve());
    EXPECT_TRUE(scale.halve());
    EXPECT_EQ(scale.value(), 1);
    EXPECT_FALSE(scale.halve());
}

TEST(LossScale, doubles_after_many_sound_gradients_in_a_row_up_to_a_bound) {
    LossScale scale(LossScale::scale_max / 2);
    const auto many_sound = [&] {
        for (std::uint64_t i = 0; i < LossScale::sound_in_a_row; ++i) scale.sound();
    };
    many_sound();
    EXPECT_EQ(scale.value(), LossScale::scale_max);
    many_sound();
    EXPECT_EQ(scale.value(), LossScale::scale_max);
    for (std::uint64_t i = 1; i < LossScale::sound_in_a_row; ++i) scale.sound();
    EXPECT_TRUE(scale.halve());  // begins to count anew
    scale.sound();
    EXPECT_EQ(scale.value(), LossScale::scale_max / 2);
}

TEST(LossScale, of_one_stays_one) {
    LossScale scale(1);
    for (std::uint64_t i = 0; i < 2 * LossScale::sound_in_a_row; ++i) scale.sound();
    EXPECT_EQ(scale.value(), 1);
}

}  // namespace
}  // namespace dedloc::torch_bridge
