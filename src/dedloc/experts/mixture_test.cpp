#include "dedloc/experts/mixture.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "dedloc/experts/experts_testing.h"
#include "dedloc/wire/msgpack.h"

namespace dedloc::experts {
namespace {

using testing::Machine;
using testing::random_scores;
using testing::random_tensor;
using testing::small_expert;
using testing::Swarm;

Task<void> search(Machine& machine,
                  ExpertGrid grid,
                  std::vector<GridScores> rows,
                  BeamOptions options,
                  std::vector<std::vector<Chosen>>& chosen) {
    chosen = co_await beam_search(
        machine.directory, std::move(grid), std::move(rows), options, machine.soon());
}

std::vector<ExpertUid> best_by_hand(const std::vector<ExpertUid>& uids,
                                    const GridScores& scores,
                                    std::size_t best) {
    std::vector<ExpertUid> sorted = uids;
    std::sort(sorted.begin(), sorted.end(), [&](const ExpertUid& a, const ExpertUid& b) {
        return score_of(a, scores) > score_of(b, scores);
    });
    sorted.resize(std::min(best, sorted.size()));
    return sorted;
}

TEST(BeamSearch, finds_what_an_exhaustive_search_finds_in_a_sparse_grid) {
    Swarm swarm(6);
    const ExpertGrid grid{.name = "expert", .sizes = {5, 5, 5}};
    Random random(11);
    std::vector<ExpertUid> served;
    for (const ExpertUid& uid : grid.all())
        if (random.chance(0.3)) served.push_back(uid);
    swarm.world.run_task(Swarm::declare(*swarm.machines[2], served));
    std::vector<GridScores> rows;
    for (int i = 0; i < 25; ++i) rows.push_back(random_scores(random, grid));
    std::vector<std::vector<Chosen>> chosen;
    swarm.world.run_task(
        search(*swarm.machines[4], grid, rows, BeamOptions{.best = 4, .width = 25}, chosen));
    ASSERT_EQ(chosen.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto expected = best_by_hand(served, rows[i], 4);
        ASSERT_EQ(chosen[i].size(), expected.size());
        for (std::size_t j = 0; j < expected.size(); ++j) {
            EXPECT_EQ(chosen[i][j].location.uid, expected[j]) << i << " " << j;
            EXPECT_EQ(chosen[i][j].location.server, swarm.machines[2]->node.id());
        }
    }
    // A batch asks for each prefix once: 5 of the first axis and 25 of the second.
    EXPECT_LE(swarm.machines[4]->directory.lookups(), 30u);
}

TEST(BeamSearch, one_axis_works_and_forged_entries_are_skipped) {
    Swarm swarm(4);
    const ExpertGrid grid{.name = "flat", .sizes = {4}};
    std::vector<ExpertUid> served{grid.all()[1], grid.all()[3]};
    swarm.world.run_task(Swarm::declare(*swarm.machines[1], served));
    dht::Stored stored;
    const auto put = [&stored](wire::MsgpackValue subkey, wire::MsgpackValue value) {
        stored.dictionary[wire::encode_msgpack(subkey)] = {.value = wire::encode_msgpack(value),
                                                           .expiration = 1};
    };
    const std::string peer = swarm.machines[0]->node.id().text();
    using Tuple = wire::MsgpackValue::Tuple;
    put(0, Tuple{{"grid.1.0", peer}});  // fine
    put(1, Tuple{{"grid.2.1", peer}});  // of another prefix
    put(2, Tuple{{"grid.1.2", "no peer"}});
    put(3, Tuple{{"grid.1.3"}});
    put("4", Tuple{{"grid.1.4", peer}});
    put(-5, Tuple{{"grid.1.5", peer}});
    put(-1, wire::MsgpackValue());  // hivemind's "nothing here"
    EXPECT_EQ(successors_from("grid.1.", stored).size(), 1u);
    std::vector<GridScores> rows{{{0.0f, 1.0f, 2.0f, 3.0f}}};
    std::vector<std::vector<Chosen>> chosen;
    swarm.world.run_task(search(*swarm.machines[3], grid, rows, BeamOptions{.best = 4}, chosen));
    ASSERT_EQ(chosen[0].size(), 2u);
    EXPECT_EQ(chosen[0][0].location.uid.text(), "flat.3");
    EXPECT_EQ(chosen[0][1].location.uid.text(), "flat.1");
}

// The same layer in one process, computed the plain way.
struct Reference {
    std::map<ExpertUid, std::unique_ptr<FfnExpert>> experts;
    std::size_t best;

    Tensor forward(const Tensor& inputs, const std::vector<GridScores>& scores) {
        std::vector<ExpertUid> all;
        for (const auto& [uid, expert] : experts) all.push_back(uid);
        Tensor outputs = inputs;
        for (std::size_t row = 0; row < inputs.rows(); ++row) {
            const auto chosen = best_by_hand(all, scores[row], best);
            double sum = 0;
            for (const auto& uid : chosen) sum += std::exp(score_of(uid, scores[row]));
            float* out = &outputs.values[row * inputs.row_elements()];
            std::fill_n(out, inputs.row_elements(), 0.0f);
            for (const auto& uid : chosen) {
                const auto answer = experts.at(uid)->forward({take_rows(inputs, row, 1)}).value();
                const double weight = std::exp(score_of(uid, scores[row])) / sum;
                for (std::size_t j = 0; j < inputs.row_elements(); ++j)
                    out[j] += static_cast<float>(weight) * answer[0].values[j];
            }
        }
        return outputs;
    }
};

struct Pass2 {
    Result<MixtureClient::Passed> passed = MixtureClient::Passed();
    MixtureClient::Gradients gradients;
};

Task<void> forward_and_back(MixtureClient& mixture,
                            Tensor inputs,
                            std::vector<GridScores> scores,
                            std::optional<Tensor> outer,
                            Pass2& out) {
    out.passed = co_await mixture.forward(std::move(inputs), std::move(scores));
    if (!outer || !out.passed) co_return;
    MixtureClient::Passed copy = *out.passed;
    out.gradients = co_await mixture.backward(std::move(copy), *std::move(outer));
}

MixtureOptions two_by_three(std::size_t best) {
    MixtureOptions options;
    options.grid = {.name = "ffn", .sizes = {2, 3}};
    options.best = best;
    options.beam_width = 6;
    return options;
}

TEST(MixtureClient, equals_the_same_layer_in_one_process) {
    Swarm swarm(4);
    const MixtureOptions options = two_by_three(3);
    swarm.serve(options.grid, small_expert(), 3);
    Reference reference{.experts = {}, .best = 3};
    for (const ExpertUid& uid : options.grid.all())
        reference.experts[uid] = std::make_unique<FfnExpert>(uid, small_expert());
    Machine& client = *swarm.machines[3];
    MixtureClient mixture(client.node.host(), client.directory, client.remote, options);
    Random random(5);
    const Tensor inputs = random_tensor(random, 10, 8);
    std::vector<GridScores> scores;
    for (int i = 0; i < 10; ++i) scores.push_back(random_scores(random, options.grid));
    Pass2 out;
    swarm.world.run_task(forward_and_back(mixture, inputs, scores, std::nullopt, out));
    ASSERT_TRUE(out.passed);
    const Tensor expected = reference.forward(inputs, scores);
    for (std::size_t i = 0; i < expected.values.size(); ++i)
        EXPECT_NEAR(out.passed->outputs.values[i], expected.values[i], 1e-5);
    EXPECT_FALSE(out.passed->any_lost());
}

TEST(MixtureClient, gradients_are_the_slopes_of_the_outputs) {
    Swarm swarm(4);
    const MixtureOptions options = two_by_three(6);
    FfnOptions expert = small_expert();
    expert.optimizer.schedule.peak = 0;  // experts stay as they are
    swarm.serve(options.grid, expert, 3);
    Reference reference{.experts = {}, .best = 6};
    for (const ExpertUid& uid : options.grid.all())
        reference.experts[uid] = std::make_unique<FfnExpert>(uid, expert);
    Machine& client = *swarm.machines[3];
    MixtureClient mixture(client.node.host(), client.directory, client.remote, options);
    Random random(5);
    const Tensor inputs = random_tensor(random, 2, 8);
    const Tensor outer = random_tensor(random, 2, 8);
    std::vector<GridScores> scores{random_scores(random, options.grid),
                                   random_scores(random, options.grid)};
    Pass2 out;
    swarm.world.run_task(forward_and_back(mixture, inputs, scores, outer, out));
    const auto along = [&](const Tensor& at, const std::vector<GridScores>& by) {
        const Tensor result = reference.forward(at, by);
        double sum = 0;
        for (std::size_t i = 0; i < result.values.size(); ++i)
            sum += static_cast<double>(result.values[i]) * outer.values[i];
        return sum;
    };
    const float step = 1e-2f;
    for (const std::size_t at : {0u, 3u, 9u, 15u}) {
        Tensor up = inputs;
        Tensor down = inputs;
        up.values[at] += step;
        down.values[at] -= step;
        EXPECT_NEAR(out.gradients.inputs.values[at],
                    (along(up, scores) - along(down, scores)) / (2 * step),
                    3e-3);
    }
    for (std::size_t axis = 0; axis < 2; ++axis)
        for (std::size_t i = 0; i < options.grid.sizes[axis]; ++i) {
            auto up = scores;
            auto down = scores;
            up[1][axis][i] += step;
            down[1][axis][i] -= step;
            EXPECT_NEAR(out.gradients.scores[1][axis][i],
                        (along(inputs, up) - along(inputs, down)) / (2 * step),
                        3e-3);
        }
}

TEST(MixtureClient, goes_on_with_the_experts_that_answer_within_their_deadlines) {
    Swarm swarm(4);
    const MixtureOptions options = two_by_three(6);
    swarm.serve(options.grid, small_expert(), 3);
    Machine& client = *swarm.machines[3];
    MixtureClient mixture(client.node.host(), client.directory, client.remote, options);
    Random random(5);
    std::vector<GridScores> scores(4, random_scores(random, options.grid));
    Pass2 out;
    for (int i = 0; i < 3; ++i) {
        const Tensor inputs = random_tensor(random, 4, 8);
        const Tensor outer = random_tensor(random, 4, 8);
        swarm.world.run_task(forward_and_back(mixture, inputs, scores, outer, out));
        ASSERT_EQ(out.passed->terms[0].size(), 6u);
    }
    swarm.machines[1]->node.freeze();
    const TimePoint begun = swarm.world.now();
    const Tensor inputs = random_tensor(random, 4, 8);
    const Tensor outer = random_tensor(random, 4, 8);
    swarm.world.run_task(forward_and_back(mixture, inputs, scores, outer, out));
    EXPECT_LT(swarm.world.now() - begun, std::chrono::seconds(2));
    EXPECT_EQ(out.passed->terms[0].size(), 4u);
    EXPECT_FALSE(out.passed->any_lost());
    double sum = 0;
    for (const auto& term : out.passed->terms[0]) sum += term.weight;
    EXPECT_NEAR(sum, 1, 1e-9);
    EXPECT_EQ(mixture.counts().failed, 2u);
    swarm.machines[1]->node.thaw();
}

// A second and a half of silence must not cost half a minute.
TEST(MixtureClient, the_only_server_of_a_grid_is_asked_again_at_once_after_a_pause) {
    Swarm swarm(2);
    const MixtureOptions options = two_by_three(4);
    swarm.serve(options.grid, small_expert(), 1);
    Machine& client = *swarm.machines[1];
    MixtureClient mixture(client.node.host(), client.directory, client.remote, options);
    Random random(5);
    std::vector<GridScores> scores(8, random_scores(random, options.grid));
    const auto lost = [&] {
        Pass2 out;
        const Tensor inputs = random_tensor(random, 8, 8);
        swarm.world.run_task(forward_and_back(mixture, inputs, scores, inputs, out));
        return out.passed->all_lost();
    };
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(lost());
    swarm.machines[0]->node.freeze_for(std::chrono::milliseconds(1500));
    const TimePoint begun = swarm.world.now();
    EXPECT_TRUE(lost());
    while (lost() && swarm.world.now() - begun < std::chrono::seconds(60)) {
    }
    EXPECT_LT(swarm.world.now() - begun, std::chrono::milliseconds(2500));
}

// As long as others answer for most rows, one that failed is left alone.
TEST(MixtureClient, a_server_that_failed_rests_while_others_answer_for_it) {
    Swarm swarm(4);
    const MixtureOptions options = two_by_three(6);
    swarm.serve(options.grid, small_expert(), 3);
    Machine& client = *swarm.machines[3];
    MixtureClient mixture(client.node.host(), client.directory, client.remote, options);
    Random random(5);
    std::vector<GridScores> scores(4, random_scores(random, options.grid));
    const auto pass = [&] {
        Pass2 out;
        const Tensor inputs = random_tensor(random, 4, 8);
        swarm.world.run_task(forward_and_back(mixture, inputs, scores, inputs, out));
        return out.passed->terms[0].size();
    };
    EXPECT_EQ(pass(), 6u);
    swarm.machines[1]->node.freeze();
    EXPECT_EQ(pass(), 4u);
    const auto late = client.remote.records().at(swarm.machines[1]->node.id()).late;
    const TimePoint begun = swarm.world.now();
    EXPECT_EQ(pass(), 4u);
    EXPECT_LT(swarm.world.now() - begun, std::chrono::milliseconds(500));
    EXPECT_EQ(client.remote.records().at(swarm.machines[1]->node.id()).late, late);
    swarm.machines[1]->node.thaw();
}

TEST(MixtureClient, rows_without_answers_are_zeros_and_said_to_be_lost) {
    Swarm swarm(2);
    const MixtureOptions options = two_by_three(2);
    Machine& client = *swarm.machines[1];
    MixtureClient mixture(client.node.host(), client.directory, client.remote, options);
    Random random(5);
    std::vector<GridScores> scores(3, random_scores(random, options.grid));
    Pass2 out;
    const Tensor inputs = random_tensor(random, 3, 8);
    swarm.world.run_task(forward_and_back(mixture, inputs, scores, inputs, out));
    ASSERT_TRUE(out.passed);
    EXPECT_TRUE(out.passed->any_lost());
    for (const float value : out.passed->outputs.values) EXPECT_EQ(value, 0.0f);
    for (const float value : out.gradients.inputs.values) EXPECT_EQ(value, 0.0f);
    EXPECT_EQ(mixture.counts().rows_lost, 3u);
}

}  // namespace
}  // namespace dedloc::experts
