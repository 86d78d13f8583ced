#include "dedloc/replica/model_state.h"

#include <gtest/gtest.h>

namespace dedloc::replica {
namespace {

// One tensor whose moments are coded and one that is too small for it.
struct EightBits {
    run::RunFile run;
    run::Layout layout;

    EightBits() {
        run.name = "eight bits";
        run.optimizer.kind = optim::OptimizerKind::lamb;
        run.optimizer.moments_8bit = true;
        run.optimizer.schedule.peak = 0.01;
        layout.parameters = {{.name = "large", .offset = 0, .count = 70'000},
                             {.name = "small", .offset = 70'000, .count = 100}};
        layout.parameters_count = 70'100;
        layout.buffers_count = 3;
    }
    std::shared_ptr<const state::Snapshot> initial() const {
        return *initial_state(run,
                              layout,
                              std::vector<float>(layout.parameters_count, 0.5f),
                              std::vector<float>(layout.buffers_count, 0.0f));
    }
};

TEST(ModelState, has_codes_and_scales_for_moments_of_8_bits) {
    const EightBits model;
    const auto before = model.initial();
    EXPECT_TRUE(check_state(model.run, model.layout, *before));
    ASSERT_NE(before->find("exp_avg.codes"), nullptr);
    EXPECT_EQ(before->find("exp_avg.codes")->codes.size(), 70'000u);
    EXPECT_EQ(before->find("exp_avg_sq.scales")->values.size(), 18u);
    EXPECT_EQ(before->find("exp_avg")->values.size(), 100u);
    EXPECT_LE(before->bytes_size(), state_bytes_most(model.run, model.layout));
    EightBits other;
    other.run.optimizer.moments_8bit = false;
    EXPECT_FALSE(check_state(other.run, model.layout, *before));
    EXPECT_LT(before->bytes_size(), other.initial()->bytes_size() * 55 / 100);
}

TEST(ModelState, steps_with_moments_of_8_bits_and_keeps_back_what_is_not_finite) {
    const EightBits model;
    const auto before = model.initial();
    std::vector<float> average(model.layout.vector_count(), 0.25f);
    StepFacts facts;
    const auto after = *next_state(model.run, model.layout, *before, {}, average, &facts);
    EXPECT_FALSE(facts.kept_back);
    EXPECT_TRUE(check_state(model.run, model.layout, *after));
    EXPECT_LT(parameters_of(*after)[0], 0.5f);
    EXPECT_FLOAT_EQ(after->find("exp_avg.scales")->values[0], 0.025f);
    EXPECT_EQ(after->find("exp_avg.codes")->codes[0], 255);
    average[5] = 1e30f;  // its square is none
    const auto kept = *next_state(model.run, model.layout, *after, {}, average, &facts);
    EXPECT_TRUE(facts.kept_back);
    EXPECT_EQ(kept->find("exp_avg.codes")->codes, after->find("exp_avg.codes")->codes);
}

}  // namespace
}  // namespace dedloc::replica
