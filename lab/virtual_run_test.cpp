// The delayed update and trainers that come and go, in virtual time.

#include "lab/virtual_run.h"

#include <gtest/gtest.h>

#include "lab/bowl.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t elements = 20'000;

// Computing one batch takes four trainers 4 s; one round on these links about as long.
VirtualRunOptions small_run(bool delayed) {
    VirtualRunOptions options;
    options.run.name = "virtual";
    options.run.batch.target = 256;
    options.run.batch.micro = 4;
    options.run.optimizer.schedule.peak = 0.02;
    options.run.averaging.part_elements_max = 2048;
    options.run.averaging.round_deadline_min = 30s;
    options.run.averaging.delayed = delayed;
    VirtualTrainer trainer;
    trainer.samples_per_s = 16;
    trainer.upload_bytes_per_s = trainer.download_bytes_per_s = elements * 2 * 1.5 / 3.4;
    options.trainers.assign(4, trainer);
    options.make_learner = [](const PeerId& peer) { return make_bowl(elements, peer); };
    options.steps = 12;
    options.seed = 5;
    return options;
}

double samples_in(const VirtualResult& result) {
    double samples = 0;
    for (const VirtualStep& step : result.steps) samples += step.samples;
    return samples;
}

TEST(VirtualRun, a_delayed_update_hides_the_round_behind_the_next_batch) {
    const auto waiting = run_virtually(small_run(false));
    const auto delayed = run_virtually(small_run(true));
    ASSERT_TRUE(waiting) << waiting.error().message();
    ASSERT_TRUE(delayed) << delayed.error().message();
    EXPECT_TRUE(waiting->identical);
    EXPECT_TRUE(delayed->identical);
    EXPECT_LT(waiting->compute_share, 0.65);
    EXPECT_GT(delayed->compute_share, 0.93);
    // The same samples a step, and as good a model from them.
    EXPECT_NEAR(samples_in(*delayed) / samples_in(*waiting), 1.0, 0.1);
    EXPECT_EQ(delayed->samples_dropped, 0u);
    ASSERT_GE(delayed->steps.size(), 12u);
    EXPECT_LT(delayed->steps[11].loss, delayed->steps[1].loss * 0.7);
    EXPECT_NEAR(delayed->steps[11].loss, waiting->steps[11].loss, 0.15 * waiting->steps[1].loss);
}

// A round that takes three batches: nobody computes further ahead than one.
TEST(VirtualRun, nothing_gets_older_than_one_step_when_rounds_are_slow) {
    VirtualRunOptions options = small_run(true);
    for (VirtualTrainer& trainer : options.trainers)
        trainer.upload_bytes_per_s = trainer.download_bytes_per_s /= 3;
    const auto result = run_virtually(options);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_TRUE(result->identical);
    EXPECT_LT(result->compute_share, 0.6);
    for (const VirtualStep& step : result->steps) EXPECT_LE(step.samples, 256 * 1.2) << step.step;
}

TEST(VirtualRun, a_delayed_update_lives_with_trainers_that_come_and_go) {
    VirtualRunOptions options = small_run(true);
    for (int i = 0; i < 2; ++i) {
        VirtualTrainer guest = options.trainers.front();
        guest.upload_bytes_per_s = guest.download_bytes_per_s *= 4;
        guest.joins_at = 5s + 4s * i;
        guest.stays = 25s;
        guest.away = 8s;
        options.trainers.push_back(guest);
    }
    options.steps = 25;
    const auto result = run_virtually(options);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_TRUE(result->identical);
    std::size_t most = 0;
    for (const VirtualStep& step : result->steps) most = std::max(most, step.members);
    EXPECT_GT(most, 4u);
}

}  // namespace
}  // namespace dedloc::lab
