// The delayed update, trainers that come and go, and aggregators, in virtual time.

#include "lab/virtual_run.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "dedloc/base/random.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t elements = 200'000;

// A learner that costs next to nothing: a bowl, whose gradient is the way to its lowest point with
// noise that is a function of peer and sample number.
constexpr float lowest = 0.5f;
constexpr float noise_size = 1.0f;

class Bowl final : public collab::Learner {
  public:
    Bowl(std::size_t count, const PeerId& peer) : parameters_(count), sum_(count) {
        for (const std::uint8_t byte : peer.bytes()) seed_ = base::mix64(seed_ ^ byte);
    }

    collab::Layout layout() const override {
        collab::Layout layout;
        layout.parameters_count = parameters_.size();
        layout.parameters.push_back({.name = "bowl",
                                     .offset = 0,
                                     .count = parameters_.size(),
                                     .decay = true,
                                     .trust = true});
        return layout;
    }
    void initial(std::span<float> parameters, std::span<float>) override {
        std::fill(parameters.begin(), parameters.end(), 1.0f);
    }
    void load(std::span<const float> parameters, std::span<const float> buffers) override {
        move_to(parameters, buffers);
        std::fill(sum_.begin(), sum_.end(), 0.0f);
    }
    void move_to(std::span<const float> parameters, std::span<const float>) override {
        parameters_.assign(parameters.begin(), parameters.end());
    }
    Result<collab::GradientReport> accumulate(collab::CounterRange samples) override {
        const auto weight = static_cast<float>(samples.size());
        const float noise_scale = noise_size * std::sqrt(weight) / 32768.0f;
        std::uint64_t noise = base::mix64(seed_ ^ samples.begin);
        for (std::size_t k = 0; k < sum_.size(); ++k) {
            noise = noise * 6364136223846793005u + 1442695040888963407u;
            const auto drawn = static_cast<std::int16_t>(noise >> 48);
            sum_[k] += weight * (parameters_[k] - lowest) + noise_scale * static_cast<float>(drawn);
        }
        return collab::GradientReport{.loss_sum = loss() * static_cast<double>(samples.size())};
    }
    void take(std::span<float> gradient_sum, std::span<float>, std::uint64_t) override {
        std::copy(sum_.begin(), sum_.end(), gradient_sum.begin());
        std::fill(sum_.begin(), sum_.end(), 0.0f);
    }
    Result<collab::Evaluation> evaluate() override {
        return collab::Evaluation{
            .loss = loss(), .accuracy = std::numeric_limits<double>::quiet_NaN(), .samples = 1};
    }

  private:
    // Of the first parameter: they all go the same way.
    double loss() const {
        const double away = static_cast<double>(parameters_.front()) - static_cast<double>(lowest);
        return 0.5 * away * away;
    }

    std::uint64_t seed_ = 1;
    std::vector<float> parameters_;
    std::vector<float> sum_;
};

// Computing one batch takes four trainers 4 s; one round on these lines nearly as long.
VirtualRunOptions small_run(bool delayed) {
    VirtualRunOptions options;
    options.run.name = "virtual";
    options.run.batch.target = 256;
    options.run.batch.micro = 4;
    options.run.optimizer.schedule.peak = 0.02;
    options.run.averaging.part_elements_max = 16384;
    options.run.averaging.round_deadline_min = 30s;
    options.run.averaging.delayed = delayed;
    VirtualMachine machine;
    machine.samples_per_s = 16;
    machine.bytes_per_s = elements * 2 * 1.5 / 2.8;
    options.machines.assign(4, machine);
    options.make_learner = [](const PeerId& peer) -> Result<std::unique_ptr<collab::Learner>> {
        return std::unique_ptr<collab::Learner>(std::make_unique<Bowl>(elements, peer));
    };
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
    EXPECT_EQ(delayed->samples_expired, 0);
    ASSERT_GE(delayed->steps.size(), 12u);
    EXPECT_LT(delayed->steps[11].loss, delayed->steps[1].loss * 0.7);
    EXPECT_NEAR(delayed->steps[11].loss, waiting->steps[11].loss, 0.15 * waiting->steps[1].loss);
}

// A round that takes three batches: nobody computes further ahead than one.
TEST(VirtualRun, nothing_gets_older_than_one_step_when_rounds_are_slow) {
    VirtualRunOptions options = small_run(true);
    for (VirtualMachine& machine : options.machines) machine.bytes_per_s /= 3;
    const auto result = run_virtually(options);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_TRUE(result->identical);
    EXPECT_LT(result->compute_share, 0.6);
    for (const VirtualStep& step : result->steps) EXPECT_LE(step.samples, 256 * 1.2) << step.step;
}

TEST(VirtualRun, a_delayed_update_lives_with_trainers_that_come_and_go) {
    VirtualRunOptions options = small_run(true);
    for (int i = 0; i < 2; ++i) {
        VirtualMachine guest = options.machines.front();
        guest.bytes_per_s *= 4;
        guest.joins_at = 5s + 4s * i;
        guest.stays = 25s;
        guest.away = 8s;
        options.machines.push_back(guest);
    }
    options.steps = 25;
    const auto result = run_virtually(options);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_TRUE(result->identical);
    std::size_t most = 0;
    for (const VirtualStep& step : result->steps) most = std::max(most, step.members);
    EXPECT_GT(most, 4u);
}

double round_s(const VirtualResult& result) {
    double sum = 0;
    for (std::size_t i = 2; i < result.steps.size(); ++i) sum += result.steps[i].round_s;
    return sum / static_cast<double>(result.steps.size() - 2);
}

// One line is four times as slow as the others. Balanced, it has hardly time for its own
// contribution and average, 80 kB: 3.4 s; with equal parts it must move 1.5 times that.
TEST(VirtualRun, parts_by_rates_are_faster_than_equal_ones_and_an_aggregator_helps) {
    VirtualRunOptions options = small_run(false);
    options.steps = 8;
    for (VirtualMachine& machine : options.machines) machine.bytes_per_s *= 4;
    options.machines.back().bytes_per_s /= 4;
    const auto balanced = run_virtually(options);
    options.equal_parts = true;
    const auto equal = run_virtually(options);
    ASSERT_TRUE(balanced) << balanced.error().message();
    ASSERT_TRUE(equal) << equal.error().message();
    EXPECT_LT(round_s(*balanced), round_s(*equal) * 0.85);

    options = small_run(false);
    options.steps = 8;
    const auto alone = run_virtually(options);
    VirtualMachine aggregator;
    aggregator.aggregates = true;
    options.machines.push_back(aggregator);
    const auto helped = run_virtually(options);
    ASSERT_TRUE(alone) << alone.error().message();
    ASSERT_TRUE(helped) << helped.error().message();
    EXPECT_TRUE(helped->identical);
    EXPECT_EQ(alone->rounds_of_aggregators, 0u);
    EXPECT_GE(helped->rounds_of_aggregators, 6u);
    EXPECT_LT(round_s(*helped), round_s(*alone) * 0.85);
    for (const VirtualStep& step : helped->steps) EXPECT_LE(step.members, 4u);
}

}  // namespace
}  // namespace dedloc::lab
