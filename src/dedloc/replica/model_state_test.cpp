#include "dedloc/replica/model_state.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "dedloc/codec/codec.h"

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

// Two tensors and three buffers, which three fragments cut inside both tensors.
struct Fragments {
    run::RunFile run;
    run::Layout layout;

    explicit Fragments(optim::OptimizerKind kind) {
        run.name = "fragments";
        run.local.emplace().batch = 1;
        run.local->fragments = 3;
        run.optimizer.kind = kind;
        run.optimizer.momentum = 0.5;
        run.optimizer.weight_decay = 0.25;
        run.optimizer.schedule.peak = 0.125;
        layout.parameters = {{.name = "a", .offset = 0, .count = 5},
                             {.name = "b", .offset = 5, .count = 4}};
        layout.parameters_count = 9;
        layout.buffers_count = 3;
    }
    std::shared_ptr<const state::Snapshot> stepped(const state::Snapshot& before,
                                                   std::vector<float> average) const {
        consensus::Decision decision;
        decision.instance.step = before.step();
        return *next_state(run, layout, before, decision, average);
    }
};

TEST(ModelState, a_step_of_a_fragment_leaves_all_other_bits_and_moments_as_they_are) {
    const Fragments model(optim::OptimizerKind::sgd);
    const auto first = *initial_state(
        model.run, model.layout, std::vector<float>(9, 1.0f), std::vector<float>(3, 2.0f));
    const auto one = model.stepped(*first, {1, 1, 1, 1});
    const auto is = [](const state::Snapshot& state, std::string_view name) {
        return state.find(name)->values;
    };
    // velocity = gradient + decay × parameter; parameter - rate × velocity
    const float moved = 1 - 0.125f * 1.25f;
    EXPECT_EQ(is(*one, "parameters"),
              (std::vector<float>{moved, moved, moved, moved, 1, 1, 1, 1, 1}));
    EXPECT_EQ(is(*one, "momentum"), (std::vector<float>{1.25, 1.25, 1.25, 1.25, 0, 0, 0, 0, 0}));
    const auto two = model.stepped(*one, {1, 1, 1, 1});
    const auto three = model.stepped(*two, {1, 5, 6, 7});
    EXPECT_EQ(is(*three, "parameters"), std::vector<float>(9, moved));
    EXPECT_EQ(is(*three, "momentum"), std::vector<float>(9, 1.25f));
    EXPECT_EQ(is(*three, "buffers"), (std::vector<float>{7, 8, 9}));
    EXPECT_EQ(is(*two, "buffers"), std::vector<float>(3, 2.0f));
    EXPECT_EQ(three->step(), 3u);
}

// Bias corrections count the steps of a fragment, the schedule those of all.
TEST(ModelState, a_fragment_s_adamw_steps_are_those_of_a_model_of_that_fragment) {
    Fragments model(optim::OptimizerKind::adamw);
    Fragments small(optim::OptimizerKind::adamw);
    small.run.local->fragments = 1;
    small.layout.parameters = {{.name = "a", .offset = 0, .count = 4}};
    small.layout.parameters_count = 4;
    small.layout.buffers_count = 0;
    auto state = *initial_state(
        model.run, model.layout, std::vector<float>(9, 1.0f), std::vector<float>(3, 0.0f));
    auto of_one = *initial_state(small.run, small.layout, std::vector<float>(4, 1.0f), {});
    for (int round = 0; round < 3; ++round) {
        const std::vector<float> average{1, -2, 3, 0.5f * static_cast<float>(round)};
        state = model.stepped(*state, average);
        of_one = small.stepped(*of_one, average);
        for (int i = 1; i < 3; ++i) state = model.stepped(*state, {9, 9, 9, 9});
        const auto same = parameters_of(*state).first(4);
        EXPECT_TRUE(std::ranges::equal(same, parameters_of(*of_one))) << round;
    }
}

TEST(ModelState, an_average_of_another_fragment_is_refused) {
    const Fragments model(optim::OptimizerKind::sgd);
    consensus::RoundPlan plan;
    plan.codec = static_cast<std::uint32_t>(codec::CodecId::fp32);
    plan.instance.step = 4;
    plan.whole_count = 12;
    plan.parts = {{4, 1, 0}, {5, 3, 0}};
    const std::vector<SharedBytes> averages{
        SharedBytes(codec::encode(codec::CodecId::fp32, std::vector<float>{1})),
        SharedBytes(codec::encode(codec::CodecId::fp32, std::vector<float>{2, 3, 4}))};
    const auto read = [&](std::uint64_t fragments) {
        return averaged_vector(model.layout, plan, averages, optim::run_in_order, fragments);
    };
    const auto average = read(3);
    ASSERT_TRUE(average) << average.error().message();
    EXPECT_TRUE(std::ranges::equal(average->view(), std::vector<float>{1, 2, 3, 4}));
    EXPECT_FALSE(read(1));
    EXPECT_FALSE(read(2));
    plan.instance.step = 5;
    EXPECT_EQ(read(3).error().kind(), ErrorKind::peer_broke_protocol);
}

TEST(ModelState, fragments_that_a_model_cannot_have_are_refused) {
    Fragments model(optim::OptimizerKind::sgd);
    EXPECT_TRUE(check_fragments(model.run, model.layout));
    model.run.local->fragments = 13;
    EXPECT_FALSE(check_fragments(model.run, model.layout));
    model.run.local->fragments = 2;
    model.layout.parameters[0].unit_rows = 5;
    EXPECT_FALSE(check_fragments(model.run, model.layout));
    model.run.local->fragments = 1;
    EXPECT_TRUE(check_fragments(model.run, model.layout));
}

}  // namespace
}  // namespace dedloc::replica
