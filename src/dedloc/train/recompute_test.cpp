// A validator computes another peer's local updates again, and finds the same bits on the same
// machine, whatever either of them did before.

#include "dedloc/train/recompute.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <set>
#include <utility>

#include "dedloc/base/random.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/security/identity.h"
#include "dedloc/tensor/relative_distance.h"
#include "dedloc/train/local_updates.h"
#include "dedloc/train/vector_model.h"

namespace dedloc::train {
namespace {

using collab::CounterRange;
using run::LocalConfig;

constexpr std::size_t elements = 1000;
constexpr std::uint64_t micro = 4;
constexpr std::uint64_t inner_batch = 8;

PeerId peer(std::uint8_t number) { return security::Identity::from_seed(Bytes(32, number))->id(); }

run::Layout layout_of_one() {
    return {.parameters = {{.name = "m", .count = elements}}, .parameters_count = elements};
}

std::vector<float> first_parameters() {
    std::vector<float> parameters(elements);
    Random random(5);
    for (float& each : parameters) each = static_cast<float>(random.normal());
    return parameters;
}

// Each sample of each author pulls elsewhere, each element with another strength. Its machine may
// round otherwise than others.
class Pulls final : public VectorModel {
  public:
    explicit Pulls(PeerId self)
        : VectorModel(layout_of_one(), first_parameters()), author_(std::move(self)) {}

    Result<void> compute_as(const PeerId& author) override {
        author_ = author;
        return {};
    }
    Result<GradientReport> accumulate(CounterRange samples) override {
        if (not_finite.contains(samples.begin)) return GradientReport{.finite = false};
        for (std::uint64_t sample = samples.begin; sample < samples.end; ++sample) {
            Random random(base::mix64(base::mix64(author_.bytes().back()) ^ sample));
            for (std::size_t i = 0; i < elements; ++i) {
                const float strength = static_cast<float>(1 + i % 7) / 4;
                const float pull = parameters()[i] - static_cast<float>(random.normal());
                sum()[i] += strength * pull * (1 + rounding * static_cast<float>(random.normal()));
            }
        }
        return GradientReport{.loss_sum = static_cast<double>(samples.size())};
    }
    Result<collab::Evaluation> evaluate() override { return collab::Evaluation{}; }

    float rounding = 0;                  // relative
    std::set<std::uint64_t> not_finite;  // first samples of micro-batches

  private:
    PeerId author_;
};

LocalConfig local_config(optim::OptimizerKind kind) {
    LocalConfig config;
    config.batch = inner_batch;
    config.optimizer.kind = kind;
    config.optimizer.schedule.peak = 0.01;
    config.optimizer.schedule.warmup_steps = 3;
    return config;
}

std::shared_ptr<const state::Snapshot> state_at(std::uint64_t step, std::vector<float> parameters) {
    state::SnapshotInfo info;
    info.step = step;
    std::vector<state::Section> sections;
    sections.push_back({std::string(replica::parameters_section), std::move(parameters)});
    sections.push_back({std::string(replica::buffers_section), {}});
    return *state::Snapshot::make(std::move(info), std::move(sections));
}

// A peer that trains, or checks what others trained.
struct CheckingPeer {
    CheckingPeer(std::uint8_t number,
                 const LocalConfig& config,
                 InnerMoments lasting = InnerMoments::of_one_step)
        : id(peer(number)), model(id), local(model, config, lasting) {}

    // The machine computes these micro-batches in this order, and hands in what comes of them.
    std::vector<float> contribution(const state::Snapshot& state,
                                    const std::vector<CounterRange>& micro_batches) {
        local.begin_at(state);
        std::uint64_t counted = 0;
        for (const CounterRange& samples : micro_batches)
            if (local.computed(samples.size(), model.accumulate(samples)->finite))
                counted += samples.size();
        std::vector<float> sum(elements);
        local.take(sum, {}, counted);
        return sum;
    }
    std::vector<std::vector<float>> again(const PeerId& author,
                                          std::vector<validation::CheckPiece> pieces) {
        const auto result =
            recompute(model, model, local, {1, author, id, std::move(pieces)}, micro);
        EXPECT_TRUE(result) << result.error().message();
        return result ? result->sums : std::vector<std::vector<float>>();
    }

    PeerId id;
    Pulls model;
    LocalUpdates local;
};

std::vector<CounterRange> micro_batches_of(CounterRange samples) {
    std::vector<CounterRange> all;
    for (std::uint64_t begin = samples.begin; begin < samples.end; begin += micro)
        all.push_back({begin, begin + micro});
    return all;
}

class Recompute : public testing::TestWithParam<optim::OptimizerKind> {
  protected:
    LocalConfig config_ = local_config(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Inner,
                         Recompute,
                         testing::Values(optim::OptimizerKind::sgd,
                                         optim::OptimizerKind::adamw,
                                         optim::OptimizerKind::lamb),
                         [](const auto& kind) {
                             return std::string(optim::to_string(kind.param));
                         });

// The author has trained before, the validator something else; the last inner batch is cut off.
TEST_P(Recompute, finds_what_was_handed_in_to_the_bit) {
    CheckingPeer author(1, config_);
    CheckingPeer validator(2, config_);
    const auto first = state_at(3, first_parameters());
    const auto second = state_at(4, std::vector<float>(elements, 0.25f));
    const std::vector<float> before = author.contribution(*first, micro_batches_of({100, 140}));
    const std::vector<float> handed_in = author.contribution(*second, micro_batches_of({140, 168}));
    (void)validator.contribution(*first, micro_batches_of({0, 12}));
    // Fresh samples, and those that the round before had left out, each at their own state.
    const auto again = validator.again(author.id, {{{140, 168}, second}, {{100, 140}, first}});
    ASSERT_EQ(again.size(), 2u);
    EXPECT_EQ(again[0], handed_in);
    EXPECT_EQ(again[1], before);
    EXPECT_NE(validator.again(validator.id, {{{140, 168}, second}})[0], handed_in);
}

TEST_P(Recompute, finds_something_else_of_samples_in_another_order) {
    CheckingPeer author(1, config_);
    CheckingPeer validator(2, config_);
    const auto state = state_at(3, first_parameters());
    std::vector<CounterRange> turned = micro_batches_of({0, 32});
    std::ranges::reverse(turned);
    const std::vector<float> handed_in = author.contribution(*state, turned);
    EXPECT_NE(validator.again(author.id, {{{0, 32}, state}})[0], handed_in);
    std::ranges::reverse(turned);
    EXPECT_EQ(validator.again(author.id, {{{0, 32}, state}})[0],
              author.contribution(*state, turned));
}

TEST_P(Recompute, leaves_out_what_was_not_finite_there) {
    CheckingPeer author(1, config_);
    CheckingPeer validator(2, config_);
    const std::set<std::uint64_t> damaged{0, 12, 16, 20};  // three in a row lead back to the start
    author.model.not_finite = damaged;
    validator.model.not_finite = damaged;
    const auto state = state_at(3, first_parameters());
    const std::vector<float> handed_in = author.contribution(*state, micro_batches_of({4, 40}));
    EXPECT_EQ(validator.again(author.id, {{{4, 40, 12}, state}})[0], handed_in);
}

TEST_P(Recompute, finds_no_moments_of_what_was_forgotten) {
    CheckingPeer author(1, config_);
    CheckingPeer validator(2, config_);
    const auto state = state_at(3, first_parameters());
    (void)author.contribution(*state, micro_batches_of({0, 24}));
    author.local.begin_at(*state);
    for (const CounterRange& samples : micro_batches_of({24, 40}))
        (void)author.local.computed(samples.size(), author.model.accumulate(samples)->finite);
    author.local.forget();
    for (const CounterRange& samples : micro_batches_of({40, 64}))
        (void)author.local.computed(samples.size(), author.model.accumulate(samples)->finite);
    std::vector<float> handed_in(elements);
    author.local.take(handed_in, {}, 24);
    EXPECT_EQ(validator.again(author.id, {{{40, 64}, state}})[0], handed_in);
}

// A machine that rounds each gradient otherwise, in the seventh digit, is within what a run allows.
TEST_P(Recompute, stays_within_the_tolerance_where_machines_round_otherwise) {
    CheckingPeer author(1, config_);
    CheckingPeer validator(2, config_);
    author.model.rounding = 1e-6f;
    const auto state = state_at(3, first_parameters());
    const std::vector<float> handed_in = author.contribution(*state, micro_batches_of({0, 96}));
    run::RunFile run;
    run.robust.emplace();
    run.local = config_;
    const double off =
        tensor::relative_distance(handed_in, validator.again(author.id, {{{0, 96}, state}})[0]);
    EXPECT_GT(off, 0);
    EXPECT_LT(off, run::recheck_tolerance(run) / 5);
}

// Why moments begin anew: where they are kept they are of samples that no round names.
TEST(RecomputeOfKeptMoments, finds_something_else) {
    const LocalConfig config = local_config(optim::OptimizerKind::adamw);
    CheckingPeer author(1, config, InnerMoments::kept);
    CheckingPeer validator(2, config, InnerMoments::kept);
    const auto state = state_at(3, first_parameters());
    EXPECT_EQ(validator.again(author.id, {{{0, 16}, state}})[0],
              author.contribution(*state, micro_batches_of({0, 16})));
    CheckingPeer late(3, config, InnerMoments::kept);
    EXPECT_NE(late.again(author.id, {{{16, 32}, state}})[0],
              author.contribution(*state, micro_batches_of({16, 32})));
}

TEST(RecomputeOfGradients, finds_the_sum_that_was_handed_in) {
    Pulls model(peer(1));
    GradientSum sum(model);
    const auto state = state_at(3, first_parameters());
    sum.begin_at(*state);
    for (const CounterRange& samples : micro_batches_of({0, 12}))
        EXPECT_TRUE(sum.computed(samples.size(), model.accumulate(samples)->finite));
    std::vector<float> handed_in(elements);
    sum.take(handed_in, {}, 12);
    Pulls other(peer(2));
    GradientSum other_sum(other);
    const auto again =
        recompute(other, other, other_sum, {1, peer(1), peer(2), {{{0, 12}, state}}}, micro);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->sums.front(), handed_in);
}

}  // namespace
}  // namespace dedloc::train
