// Local updates on a bowl whose arithmetic is exact: all numbers are sums of few powers of two.

#include "dedloc/train/local_updates.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <utility>

#include "dedloc/replica/model_state.h"

namespace dedloc::train {
namespace {

using collab::CounterRange;
using collab::Evaluation;
using run::Layout;
using run::LocalConfig;
using run::RunFile;

constexpr std::uint64_t local_micro = 2;

// The gradient of a sample is the way from its goal; one buffer counts up by the samples seen.
class Bowl final : public SampledModel {
  public:
    struct Seen {
        std::uint64_t steps = 0;  // inner ones: takes
        std::vector<float> at;    // parameters
        bool next_not_finite = false;
        float next_gradient = 0;  // instead of its own, if it is not 0
        float not_finite_below = -1e9f;
    };
    Bowl(std::vector<float> goal, Seen& seen) : seen_(seen), goal_(std::move(goal)) {}

    Layout layout() const override {
        Layout layout;
        layout.parameters.push_back({.name = "p", .offset = 0, .count = goal_.size()});
        layout.parameters_count = goal_.size();
        layout.buffers_count = 1;
        return layout;
    }
    void load(std::span<const float> parameters, std::span<const float> buffers) override {
        seen_.at.assign(parameters.begin(), parameters.end());
        buffer_ = buffers[0];
        taken_buffer_ = buffer_;
    }
    void store(std::span<float>, std::span<float>) const override {}
    Result<GradientReport> accumulate(CounterRange samples) override {
        if (std::exchange(seen_.next_not_finite, false) || seen_.at[0] < seen_.not_finite_below)
            return GradientReport{.finite = false};
        const auto weight = static_cast<float>(samples.size());
        const float instead = std::exchange(seen_.next_gradient, 0.0f);
        for (std::size_t i = 0; i < sum_.size(); ++i)
            sum_[i] += weight * (instead != 0 ? instead : seen_.at[i] - goal_[i]);
        buffer_ += weight;
        return GradientReport{.loss_sum = static_cast<double>(samples.size())};
    }
    void take_sum(std::span<float> gradient) override {
        std::copy(sum_.begin(), sum_.end(), gradient.begin());
        forget_sum();
        ++seen_.steps;
    }
    void take_buffers(std::span<float> changes, double scale) override {
        changes[0] = static_cast<float>(scale) * (buffer_ - std::exchange(taken_buffer_, buffer_));
    }
    void forget_sum() override { sum_.assign(goal_.size(), 0.0f); }
    Result<Evaluation> evaluate() override { return Evaluation{}; }

  private:
    Seen& seen_;
    std::vector<float> goal_;
    std::vector<float> sum_;
    float buffer_ = 0;
    float taken_buffer_ = 0;
};

LocalConfig plain_sgd(double rate, std::uint64_t batch = 4) {
    LocalConfig config;
    config.batch = batch;
    config.optimizer.momentum = 0;
    config.optimizer.schedule.peak = rate;
    return config;
}

struct Handed {
    std::vector<float> way;
    std::vector<float> buffers;
};

std::shared_ptr<const state::Snapshot> state_of(std::uint64_t step,
                                                std::vector<float> parameters,
                                                std::vector<float> buffers) {
    state::SnapshotInfo info;
    info.step = step;
    std::vector<state::Section> sections;
    sections.push_back({std::string(replica::parameters_section), std::move(parameters)});
    sections.push_back({std::string(replica::buffers_section), std::move(buffers)});
    return *state::Snapshot::make(std::move(info), std::move(sections));
}

// One peer: a model, its local updates and its own sample numbers.
struct LocalPeer {
    LocalPeer(std::vector<float> goal, const LocalConfig& config)
        : parameters(goal.size(), 1.0f), bowl(std::move(goal), seen), local(bowl, config) {
        load(parameters, buffers);
    }
    void load(const std::vector<float>& at,
              const std::vector<float>& with,
              std::uint64_t global_step = 0) {
        local.begin_at(*state_of(global_step, at, with));
    }
    std::uint64_t compute(std::uint64_t samples) {
        std::uint64_t counted = 0;
        for (std::uint64_t done = 0; done < samples; done += local_micro, next += local_micro) {
            const auto report = bowl.accumulate({next, next + local_micro});
            EXPECT_TRUE(report);
            if (!report->finite)
                local.left_out();
            else if (local.added(local_micro))
                counted += local_micro;
        }
        return counted;
    }
    Handed take(std::uint64_t samples) {
        Handed handed{std::vector<float>(parameters.size(), -1.0f), std::vector<float>(1)};
        local.take(handed.way, handed.buffers, samples);
        return handed;
    }

    Bowl::Seen seen;
    std::vector<float> parameters;
    std::vector<float> buffers{0};
    Bowl bowl;
    LocalUpdates local;
    std::uint64_t next = 0;
};

RunFile outer_run(double rate) {
    RunFile run;
    run.name = "x";
    run.optimizer.momentum = 0;
    run.optimizer.schedule.peak = rate;
    return run;
}

// The state after a step on this average.
std::vector<float> stepped(const RunFile& run, const Layout& layout, std::vector<float> average) {
    std::vector<float> ones(layout.parameters_count, 1.0f);
    const auto first = replica::initial_state(run, layout, std::move(ones), std::vector<float>(1));
    average.push_back(0);  // the buffer
    const auto next = replica::next_state(run, layout, **first, consensus::Decision{}, average);
    const auto parameters = replica::parameters_of(**next);
    return {parameters.begin(), parameters.end()};
}

// Rate 1/4, goal 0: every inner step leaves 3/4 of the way.
TEST(LocalUpdates, an_outer_step_at_rate_one_ends_where_the_inner_steps_did) {
    LocalPeer peer({0, 0}, plain_sgd(0.25));
    EXPECT_EQ(peer.compute(16), 16u);
    EXPECT_EQ(peer.local.inner_steps(), 4u);
    EXPECT_EQ(peer.seen.steps, 4u);
    const float end = 81.0f / 256;
    EXPECT_EQ(peer.seen.at, std::vector<float>({end, end}));
    const Handed handed = peer.take(16);
    EXPECT_EQ(handed.way, std::vector<float>(2, (1 - end) * 16));
    const auto state = stepped(outer_run(1), peer.bowl.layout(), {1 - end, 1 - end});
    EXPECT_EQ(state, peer.seen.at);
}

TEST(LocalUpdates, the_mean_over_two_peers_is_the_mean_of_where_they_came_to_by_samples) {
    LocalPeer one({0}, plain_sgd(0.5));
    LocalPeer other({3}, plain_sgd(0.5));
    one.compute(4);
    other.compute(12);
    EXPECT_EQ(one.seen.at[0], 0.5f);
    EXPECT_EQ(other.seen.at[0], 2.75f);
    const float sum = one.take(4).way[0] + other.take(12).way[0];
    const auto state = stepped(outer_run(1), one.bowl.layout(), {sum / 16});
    EXPECT_EQ(state[0], (0.5f * 4 + 2.75f * 12) / 16);
}

TEST(LocalUpdates, the_outer_optimizer_sees_the_mean_way_back_as_its_gradient) {
    LocalPeer peer({0}, plain_sgd(0.5));
    peer.compute(4);
    const float mean = peer.take(4).way[0] / 4;
    EXPECT_EQ(mean, 0.5f);
    RunFile run = outer_run(0.5);
    run.optimizer.momentum = 0.5;
    run.optimizer.nesterov = true;
    // Nesterov's first step: rate × (gradient + momentum × gradient).
    EXPECT_EQ(stepped(run, peer.bowl.layout(), {mean})[0], 1 - 0.5f * (0.5f + 0.5f * 0.5f));
}

TEST(LocalUpdates, keeps_the_inner_momentum_from_one_global_step_to_the_next) {
    LocalConfig config = plain_sgd(0.25);
    config.optimizer.momentum = 0.5;
    LocalPeer peer({0}, config);
    float p = 1;
    float momentum = 0;
    for (int global_step = 0; global_step < 3; ++global_step) {
        peer.compute(8);
        for (int i = 0; i < 2; ++i) {
            momentum = 0.5f * momentum + p;
            p -= 0.25f * momentum;
        }
        EXPECT_EQ(peer.seen.at[0], p);
        const Handed handed = peer.take(8);
        EXPECT_EQ(handed.way[0], 8 * (peer.parameters[0] - p));
        peer.parameters[0] = p;
        peer.load(peer.parameters, handed.buffers);
    }
    EXPECT_EQ(peer.local.inner_steps(), 6u);
}

TEST(LocalUpdates, starts_anew_from_what_is_loaded) {
    LocalPeer peer({0}, plain_sgd(0.5));
    peer.compute(6);  // one inner step and a half
    peer.load(std::vector<float>{4}, peer.buffers);
    peer.compute(4);
    EXPECT_EQ(peer.seen.at[0], 2);
    EXPECT_EQ(peer.take(4).way[0], 2 * 4);
}

// With rate 1/2 and goal 0 a whole inner step goes half of the way.
TEST(LocalUpdates, an_inner_batch_that_is_cut_off_goes_as_far_as_its_share) {
    LocalPeer peer({0}, plain_sgd(0.5));
    peer.compute(2);
    EXPECT_EQ(peer.take(2).way[0], 2 * 0.25f);
    EXPECT_EQ(peer.seen.at[0], 0.75f);
}

TEST(LocalUpdates, clips_the_mean_gradient_of_an_inner_step) {
    LocalConfig config = plain_sgd(1);
    config.optimizer.gradient_norm_max = 0.25;
    LocalPeer peer({0}, config);
    peer.compute(4);
    EXPECT_NEAR(peer.seen.at[0], 0.75f, 1e-6);
}

TEST(LocalUpdates, the_inner_rate_follows_the_global_step_and_not_the_own_count) {
    LocalConfig config = plain_sgd(0.5);
    config.optimizer.schedule.warmup_steps = 2;
    LocalPeer peer({0}, config);
    peer.compute(8);  // both at half the rate
    EXPECT_EQ(peer.seen.at[0], 0.75f * 0.75f);
    peer.load(peer.parameters, peer.buffers, 1);
    peer.compute(4);
    EXPECT_EQ(peer.seen.at[0], 0.5f);
}

// Adam's first step has the length of its rate, whenever it comes.
TEST(LocalUpdates, bias_corrections_go_by_own_inner_steps) {
    LocalConfig config = plain_sgd(0.125);
    config.optimizer.kind = optim::OptimizerKind::adamw;
    LocalPeer peer({0}, config);
    peer.load(peer.parameters, peer.buffers, 1000);
    peer.compute(4);
    EXPECT_NEAR(peer.seen.at[0], 0.875f, 1e-6);
}

TEST(LocalUpdates, hands_over_the_buffers_change_by_samples_once) {
    LocalPeer peer({0}, plain_sgd(0.5));
    peer.load(peer.parameters, std::vector<float>{100});
    peer.compute(10);
    EXPECT_EQ(peer.take(10).buffers[0], 10 * 10);
    peer.compute(4);
    EXPECT_EQ(peer.take(4).buffers[0], 4 * 4);
}

TEST(LocalUpdates, a_gradient_that_is_not_finite_leaves_no_trace) {
    LocalPeer with({0}, plain_sgd(0.25));
    LocalPeer without({0}, plain_sgd(0.25));
    with.compute(6);
    with.seen.next_not_finite = true;
    EXPECT_EQ(with.compute(2), 0u);
    EXPECT_EQ(with.compute(10), 10u);
    without.compute(16);
    EXPECT_EQ(with.take(16).way, without.take(16).way);
}

// The gradient is finite, the square that Adam keeps of it is not: the way goes back to its start.
TEST(LocalUpdates, an_inner_step_that_would_not_be_finite_begins_anew_at_the_start) {
    LocalConfig config = plain_sgd(0.125);
    config.optimizer.kind = optim::OptimizerKind::adamw;
    LocalPeer peer({0}, config);
    peer.compute(8);
    EXPECT_LT(peer.seen.at[0], 0.8f);
    peer.seen.next_gradient = 1e30f;
    EXPECT_EQ(peer.compute(4), 2u);  // the micro-batch that completes the step counts as left out
    EXPECT_EQ(peer.seen.at[0], 1);
    EXPECT_EQ(peer.local.inner_steps(), 0u);
    peer.compute(4);
    EXPECT_NEAR(peer.seen.at[0], 0.875f, 1e-6);
    const Handed handed = peer.take(14);
    EXPECT_NEAR(handed.way[0], 14 * 0.125f, 1e-5);
    EXPECT_EQ(handed.buffers[0], 14 * 4) << "what the way did to them is forgotten with it";
}

// The way's parameters are numbers, and the model gives none at them.
TEST(LocalUpdates, a_way_that_led_where_nothing_is_finite_begins_anew_at_the_start) {
    LocalPeer peer({0}, plain_sgd(0.25));
    peer.seen.not_finite_below = 0.7f;
    EXPECT_EQ(peer.compute(8), 8u);  // to 0.5625
    EXPECT_EQ(peer.compute(4), 0u);
    EXPECT_EQ(peer.seen.at[0], 0.5625f);
    EXPECT_EQ(peer.compute(2), 0u);
    EXPECT_EQ(peer.seen.at[0], 1);
    EXPECT_EQ(peer.local.inner_steps(), 0u);
    EXPECT_EQ(peer.compute(4), 4u);
    const Handed handed = peer.take(12);
    EXPECT_EQ(handed.way[0], 12 * 0.25f);
    EXPECT_EQ(handed.buffers[0], 12 * 4);
}

TEST(LocalUpdates, what_was_accumulated_where_nothing_is_finite_goes_into_no_step) {
    LocalPeer peer({0}, plain_sgd(0.25));
    peer.compute(6);  // one inner step and a half
    for (int i = 0; i < 3; ++i) {
        peer.seen.next_not_finite = true;
        peer.compute(2);
    }
    EXPECT_EQ(peer.seen.at[0], 1);
    peer.compute(2);
    EXPECT_EQ(peer.seen.steps, 1u);
    peer.compute(2);
    EXPECT_EQ(peer.seen.at[0], 0.75f);
}

// There is nowhere else to go, and what was computed is worth something.
TEST(LocalUpdates, at_the_start_gradients_that_are_not_finite_lead_nowhere) {
    LocalPeer peer({0}, plain_sgd(0.25));
    peer.compute(2);
    for (int i = 0; i < 5; ++i) {
        peer.seen.next_not_finite = true;
        peer.compute(2);
    }
    peer.compute(2);
    EXPECT_EQ(peer.seen.at[0], 0.75f);
}

TEST(LocalUpdates, a_sum_beyond_all_numbers_is_left_out) {
    LocalPeer peer({0}, plain_sgd(0.25));
    peer.seen.next_gradient = 3e38f;
    EXPECT_EQ(peer.compute(4), 2u);
    EXPECT_EQ(peer.seen.at[0], 1);
    peer.compute(4);
    EXPECT_EQ(peer.seen.at[0], 0.75f);
    EXPECT_EQ(peer.take(6).way[0], 6 * 0.25f);
}

// A delayed outer step: the way made meanwhile is made again from where the step leads.
TEST(LocalUpdates, keeps_its_way_when_it_is_moved) {
    LocalPeer peer({0}, plain_sgd(0.5));
    peer.compute(4);  // 1 to 0.5
    const std::vector<float> elsewhere{8};
    peer.local.move_to(*state_of(1, elsewhere, peer.buffers));
    EXPECT_EQ(peer.seen.at[0], 7.5f);
    peer.compute(8);  // 7.5 to 1.875
    const Handed handed = peer.take(12);
    EXPECT_EQ(handed.way[0], 12 * 6.125f);
    EXPECT_EQ(handed.buffers[0], 12 * 12);
    peer.compute(4);
    EXPECT_EQ(peer.take(4).way[0], 4 * 0.9375f);  // and only once
}

// A loop that drops what it summed goes back to the state of the global step.
TEST(LocalUpdates, begins_its_way_anew_when_what_it_summed_is_forgotten) {
    LocalPeer peer({0}, plain_sgd(0.5));
    peer.compute(6);  // one inner step and a half
    peer.local.forget();
    EXPECT_EQ(peer.seen.at[0], 1);
    peer.compute(4);
    EXPECT_EQ(peer.take(4).way[0], 4 * 0.5f);
}

// Two parameters and a buffer in three fragments: each is handed in at every third step, as far as
// it has come since.
TEST(LocalUpdates, of_a_fragment_hand_in_the_way_since_it_was_moved) {
    LocalConfig config = plain_sgd(0.5);
    config.fragments = 3;
    LocalPeer peer({0, 0}, config);
    peer.compute(4);  // 1 to 0.5
    Handed handed = peer.take(4);
    EXPECT_EQ(handed.way, (std::vector<float>{4 * 0.5f, 0}));
    EXPECT_EQ(handed.buffers[0], 0);
    peer.local.move_to(*state_of(1, {8, 1}, {0}));
    EXPECT_EQ(peer.seen.at, (std::vector<float>{8, 0.5f})) << "the other goes on where it is";
    peer.compute(4);
    handed = peer.take(8);
    EXPECT_EQ(handed.way, (std::vector<float>{0, 8 * 0.75f}));
    peer.local.move_to(*state_of(2, {8, 2}, {0}));
    EXPECT_EQ(peer.seen.at, (std::vector<float>{4, 2}));
    peer.compute(4);
    handed = peer.take(12);
    EXPECT_EQ(handed.way, (std::vector<float>{0, 0}));
    EXPECT_EQ(handed.buffers[0], 12 * 12);
    peer.local.move_to(*state_of(3, {8, 2}, {5}));
    EXPECT_EQ(peer.seen.at, (std::vector<float>{2, 1}));
    peer.compute(4);
    handed = peer.take(12);
    EXPECT_EQ(handed.way, (std::vector<float>{12 * 7, 0}));
}

// With averaging.delayed: what is made of a fragment beside its round is made again from there.
TEST(LocalUpdates, of_a_fragment_go_on_beside_its_round) {
    LocalConfig config = plain_sgd(0.5);
    config.fragments = 3;
    LocalPeer peer({0, 0}, config);
    peer.compute(4);
    (void)peer.take(4);
    peer.compute(4);  // 0.5 to 0.25
    peer.local.move_to(*state_of(1, {8, 1}, {0}));
    EXPECT_EQ(peer.seen.at, (std::vector<float>{7.75f, 0.25f}));
    EXPECT_EQ(peer.take(8).way, (std::vector<float>{0, 8 * 0.75f}));
}

TEST(LocalUpdates, are_there_only_for_runs_that_say_so) {
    Bowl::Seen seen;
    Bowl bowl({0}, seen);
    const auto of_gradients = make_accumulation({}, false, bowl);
    EXPECT_EQ(dynamic_cast<LocalUpdates*>(of_gradients.get()), nullptr);
    const auto of_steps = make_accumulation(plain_sgd(0.5), false, bowl);
    EXPECT_NE(dynamic_cast<LocalUpdates*>(of_steps.get()), nullptr);
}

}  // namespace
}  // namespace dedloc::train
