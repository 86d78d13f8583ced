#include "dedloc/experts/server.h"

#include <gtest/gtest.h>

#include "dedloc/experts/experts_testing.h"

namespace dedloc::experts {
namespace {

using testing::Machine;
using testing::random_tensor;
using testing::small_expert;
using testing::Swarm;

using Answer = Result<std::vector<Tensor>>;

Task<void> forward(Machine& machine, Location expert, Tensor inputs, Answer& answer) {
    std::vector<Tensor> tensors;
    tensors.push_back(std::move(inputs));
    answer = co_await machine.remote.forward(std::move(expert), std::move(tensors));
}

Task<void> backward(
    Machine& machine, Location expert, Tensor inputs, Tensor outer, Answer& answer) {
    std::vector<Tensor> tensors;
    tensors.push_back(std::move(inputs));
    std::vector<Tensor> gradients;
    gradients.push_back(std::move(outer));
    answer = co_await machine.remote.backward(
        std::move(expert), std::move(tensors), std::move(gradients));
}

Task<void> raw_call(
    Machine& machine, PeerId peer, std::string method, Bytes request, Result<Bytes>& answer) {
    answer = co_await machine.node.host().call(
        std::move(peer), std::move(method), std::move(request), machine.soon());
}

const ExpertGrid grid_of_one{.name = "ffn", .sizes = {1, 1}};

Location only_expert(Swarm& swarm) {
    return {.uid = grid_of_one.all().front(), .server = swarm.machines[0]->node.id()};
}

TEST(ExpertServer, computes_what_the_expert_would_compute_at_home) {
    Swarm swarm(2);
    swarm.serve(grid_of_one, small_expert(), 1);
    FfnExpert twin(grid_of_one.all().front(), small_expert());
    Random random(7);
    for (int step = 0; step < 3; ++step) {
        const std::vector<Tensor> inputs{random_tensor(random, 5, 8)};
        const std::vector<Tensor> outer{random_tensor(random, 5, 8)};
        Answer answer = std::vector<Tensor>();
        swarm.world.run_task(forward(*swarm.machines[1], only_expert(swarm), inputs[0], answer));
        ASSERT_TRUE(answer) << answer.error().message();
        EXPECT_EQ(*answer, twin.forward(inputs).value());
        swarm.world.run_task(
            backward(*swarm.machines[1], only_expert(swarm), inputs[0], outer[0], answer));
        ASSERT_TRUE(answer) << answer.error().message();
        EXPECT_EQ(*answer, twin.backward(inputs, outer).value());
    }
    EXPECT_EQ(swarm.machines[0]->server.batcher().counts().updates, 3u);
}

TEST(ExpertServer, large_tensors_go_in_streams_both_ways) {
    Swarm swarm(2);
    FfnOptions options = small_expert();
    options.width = 512;
    options.hidden = 4;
    swarm.serve(grid_of_one, options, 1);
    FfnExpert twin(grid_of_one.all().front(), options);
    Random random(7);
    // 4.2 MB: two chunks a tensor.
    const std::vector<Tensor> inputs{random_tensor(random, 2100, 512)};
    const std::vector<Tensor> outer{random_tensor(random, 2100, 512)};
    Answer answer = std::vector<Tensor>();
    swarm.world.run_task(
        backward(*swarm.machines[1], only_expert(swarm), inputs[0], outer[0], answer));
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_EQ(*answer, twin.backward(inputs, outer).value());
}

TEST(ExpertServer, a_backward_call_that_is_repeated_is_applied_once) {
    Swarm swarm(2);
    swarm.serve(grid_of_one, small_expert(), 1);
    Random random(7);
    wire::ExpertRequest request;
    request.uid = "ffn.0.0";
    request.request_id = 77;
    for (int i = 0; i < 2; ++i)
        request.tensors.push_back(
            to_wire(random_tensor(random, 2, 8), codec::HivemindCompression::none).value());
    Result<Bytes> first = Bytes();
    Result<Bytes> second = Bytes();
    const PeerId server = swarm.machines[0]->node.id();
    Machine& client = *swarm.machines[1];
    swarm.world.run_task(raw_call(client, server, backward_method, wire::encode(request), first));
    swarm.world.run_task(raw_call(client, server, backward_method, wire::encode(request), second));
    ASSERT_TRUE(first && second);
    EXPECT_EQ(*first, *second);
    EXPECT_EQ(swarm.machines[0]->server.batcher().counts().updates, 1u);
    EXPECT_EQ(swarm.machines[0]->server.counts().repeated, 1u);
    request.request_id = 78;
    swarm.world.run_task(raw_call(client, server, backward_method, wire::encode(request), second));
    EXPECT_EQ(swarm.machines[0]->server.batcher().counts().updates, 2u);
}

TEST(ExpertServer, refuses_unknown_experts_wrong_shapes_and_numbers_that_are_not_finite) {
    Swarm swarm(2);
    swarm.serve(grid_of_one, small_expert(), 1);
    Random random(7);
    const PeerId server = swarm.machines[0]->node.id();
    const auto kind_of = [&](const std::string& uid, Tensor tensor) {
        wire::ExpertRequest request;
        request.uid = uid;
        request.tensors.push_back(to_wire(tensor, codec::HivemindCompression::none).value());
        Result<Bytes> answer = Bytes();
        swarm.world.run_task(
            raw_call(*swarm.machines[1], server, forward_method, wire::encode(request), answer));
        return answer ? std::string("fine") : std::string(to_string(answer.error().kind()));
    };
    EXPECT_EQ(kind_of("ffn.0.0", random_tensor(random, 2, 8)), "fine");
    EXPECT_EQ(kind_of("ffn.0.1", random_tensor(random, 2, 8)), "not found");
    EXPECT_EQ(kind_of("ffn.0.0", random_tensor(random, 2, 9)), "bad input");
    EXPECT_EQ(kind_of("ffn.0.0", random_tensor(random, 4097, 8)), "bad input");
    Tensor poisoned = random_tensor(random, 2, 8);
    poisoned.values[3] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(kind_of("ffn.0.0", poisoned), "bad input");
    EXPECT_EQ(swarm.machines[0]->server.counts().refused, 4u);
}

TEST(ExpertServer, holds_no_more_bytes_than_it_may_and_says_overloaded_at_once) {
    sim::WorldOptions slow;
    slow.worker_cost = std::chrono::seconds(1);
    ServerLimits limits;
    limits.batcher.queued_bytes_max = 16 << 10;
    Swarm swarm(2, slow, limits);
    swarm.serve(grid_of_one, small_expert(), 1);
    Random random(7);
    std::vector<Answer> answers(64, std::vector<Tensor>());
    const TimePoint begun = swarm.world.now();
    std::size_t refused = 0;
    std::size_t most = 0;
    for (Answer& answer : answers)
        swarm.world.scope().spawn(
            "call",
            forward(*swarm.machines[1], only_expert(swarm), random_tensor(random, 16, 8), answer));
    swarm.world.run_until(
        [&] {
            most = std::max<std::size_t>(most, swarm.machines[0]->server.batcher().queued_bytes());
            return swarm.world.now() - begun > std::chrono::milliseconds(900);
        },
        std::chrono::seconds(2));
    for (const Answer& answer : answers)
        if (!answer && answer.error().kind() == ErrorKind::overloaded) ++refused;
    EXPECT_GT(refused, 30u);  // long before the first batch is ready
    EXPECT_LE(most, limits.batcher.queued_bytes_max);
    EXPECT_GT(most, limits.batcher.queued_bytes_max / 2);
    swarm.world.run_for(std::chrono::seconds(20));
    EXPECT_EQ(swarm.machines[0]->server.batcher().queued_bytes(), 0u);
}

TEST(ExpertServer, calls_that_wait_are_computed_in_one_batch_oldest_first) {
    sim::WorldOptions slow;
    slow.worker_cost = std::chrono::milliseconds(100);
    Swarm swarm(2, slow);
    swarm.serve(grid_of_one, small_expert(), 1);
    FfnExpert twin(grid_of_one.all().front(), small_expert());
    Random random(7);
    std::vector<Answer> answers(10, std::vector<Tensor>());
    std::vector<Tensor> inputs;
    for (Answer& answer : answers) {
        inputs.push_back(random_tensor(random, 3, 8));
        swarm.world.scope().spawn(
            "call", forward(*swarm.machines[1], only_expert(swarm), inputs.back(), answer));
    }
    swarm.world.run_for(std::chrono::seconds(3));
    for (std::size_t i = 0; i < answers.size(); ++i) {
        ASSERT_TRUE(answers[i]) << answers[i].error().message();
        EXPECT_EQ(*answers[i], twin.forward({inputs[i]}).value());
    }
    EXPECT_EQ(swarm.machines[0]->server.batcher().counts().calls, 10u);
    EXPECT_LE(swarm.machines[0]->server.batcher().counts().batches, 3u);
}

// A call that trains the expert towards `target`, and what it is off by now.
double train_once(Swarm& swarm, std::size_t member, const Tensor& inputs, const Tensor& target) {
    Answer answer = std::vector<Tensor>();
    swarm.world.run_task(forward(*swarm.machines[member], only_expert(swarm), inputs, answer));
    EXPECT_TRUE(answer);
    Tensor outer = answer->front();
    double loss = 0;
    for (std::size_t i = 0; i < outer.values.size(); ++i) {
        outer.values[i] = (outer.values[i] - target.values[i]) / 32;
        loss += outer.values[i] * outer.values[i];
    }
    swarm.world.run_task(
        backward(*swarm.machines[member], only_expert(swarm), inputs, outer, answer));
    EXPECT_TRUE(answer);
    return loss;
}

// Sends gradients of a thousand, as fast as it can: six for each of an honest member.
double loss_after_an_attack(const ServerLimits& limits, Swarm*& kept) {
    static std::unique_ptr<Swarm> swarm;
    swarm = std::make_unique<Swarm>(5, sim::WorldOptions(), limits);
    kept = swarm.get();
    FfnOptions options = small_expert();
    options.optimizer = default_optimizer();
    options.optimizer.schedule.peak = 0.01;
    swarm->serve(grid_of_one, options, 1);
    Random random(7);
    const Tensor inputs = random_tensor(random, 16, 8);
    const Tensor target = random_tensor(random, 16, 8);
    Tensor poison = inputs;
    std::fill(poison.values.begin(), poison.values.end(), 1000.0f);
    double loss = 0;
    for (int step = 0; step < 300; ++step) {
        for (std::size_t member = 1; member < 4; ++member)
            loss = train_once(*swarm, member, inputs, target);
        if (step < 60 || step >= 160) continue;
        for (int i = 0; i < 18; ++i) {
            Answer answer = std::vector<Tensor>();
            swarm->world.run_task(
                backward(*swarm->machines[4], only_expert(*swarm), inputs, poison, answer));
            EXPECT_TRUE(answer);  // what it asks for it gets
        }
    }
    return loss;
}

TEST(ExpertServer, a_flood_of_huge_gradients_of_one_member_does_not_ruin_an_expert) {
    Swarm* swarm = nullptr;
    ServerLimits no_limits;
    no_limits.batcher.updates.norm_factor = no_limits.batcher.updates.own_norm_factor = 1e30;
    no_limits.batcher.updates.share = 1 - 1e-12;
    const double ruined = loss_after_an_attack(no_limits, swarm);
    const double bounded = loss_after_an_attack({}, swarm);
    EXPECT_LT(bounded, 0.25 * ruined) << ruined;
    const auto& members = swarm->machines[0]->server.batcher().members();
    const MemberUpdates& liar = members.at(swarm->machines[4]->node.id());
    EXPECT_EQ(liar.calls, 100u * 18);
    EXPECT_GT(liar.withheld, 700u);
    EXPECT_EQ(liar.shortened, liar.calls - liar.withheld);
    for (std::size_t member = 1; member < 4; ++member) {
        const MemberUpdates& honest = members.at(swarm->machines[member]->node.id());
        EXPECT_EQ(honest.calls, 300u);
        EXPECT_EQ(honest.withheld, 0u);
        EXPECT_LT(honest.shortened, 40u);
    }
}

// In runs that expect liars an update takes three members, and one of them cannot bend it.
TEST(ExpertServer, pooled_updates_learn_beside_a_member_that_lies) {
    Swarm* swarm = nullptr;
    ServerLimits limits;
    limits.batcher.updates.pooled_min = 3;
    const double loss = loss_after_an_attack(limits, swarm);
    ServerLimits no_limits;
    no_limits.batcher.updates.norm_factor = no_limits.batcher.updates.own_norm_factor = 1e30;
    no_limits.batcher.updates.share = 1 - 1e-12;
    EXPECT_LT(loss, 0.15 * loss_after_an_attack(no_limits, swarm));
}

TEST(ExpertServer, pooled_updates_wait_for_three_members) {
    ServerLimits limits;
    limits.batcher.updates.pooled_min = 3;
    Swarm swarm(4, sim::WorldOptions(), limits);
    swarm.serve(grid_of_one, small_expert(), 1);
    Random random(7);
    const Tensor inputs = random_tensor(random, 4, 8);
    const auto updates = [&] { return swarm.machines[0]->server.batcher().counts().updates; };
    for (int i = 0; i < 3; ++i) {
        train_once(swarm, 1, inputs, inputs);
        train_once(swarm, 2, inputs, inputs);
    }
    EXPECT_EQ(updates(), 0u);
    train_once(swarm, 3, inputs, inputs);
    EXPECT_EQ(updates(), 1u);
}

// ------------------------------------------------------------------------------- the caller's side

TEST(RemoteExperts, a_server_that_dies_costs_one_deadline_and_rests_then) {
    Swarm swarm(2);
    swarm.serve(grid_of_one, small_expert(), 1);
    Machine& client = *swarm.machines[1];
    const Location expert = only_expert(swarm);
    Random random(7);
    Answer answer = std::vector<Tensor>();
    for (int i = 0; i < 5; ++i)
        swarm.world.run_task(forward(client, expert, random_tensor(random, 2, 8), answer));
    ASSERT_TRUE(answer);
    const Duration timeout = client.remote.timeout(expert, Pass::forward);
    EXPECT_LT(timeout, std::chrono::seconds(1));
    swarm.machines[0]->node.lose_machine();
    const TimePoint begun = swarm.world.now();
    swarm.world.run_task(forward(client, expert, random_tensor(random, 2, 8), answer));
    EXPECT_FALSE(answer);
    EXPECT_LE(swarm.world.now() - begun, timeout + std::chrono::milliseconds(50));
    EXPECT_TRUE(client.remote.rests(expert.server));
    EXPECT_EQ(client.remote.records().at(expert.server).late, 1u);
}

// All calls of a batch are late when their server pauses: that says no more than one of them does.
TEST(RemoteExperts, calls_that_are_late_together_are_one_incident) {
    Swarm swarm(2);
    const ExpertGrid grid{.name = "ffn", .sizes = {2, 4}};
    swarm.serve(grid, small_expert(), 1);
    Machine& client = *swarm.machines[1];
    const PeerId server = swarm.machines[0]->node.id();
    Random random(7);
    const auto call_all = [&] {
        std::vector<Answer> answers(8, std::vector<Tensor>());
        std::size_t good = 0;
        for (std::size_t i = 0; i < answers.size(); ++i) {
            const Location expert{.uid = grid.all()[i], .server = server};
            swarm.world.scope().spawn(
                "call", forward(client, expert, random_tensor(random, 2, 8), answers[i]));
        }
        swarm.world.run_for(std::chrono::seconds(6));
        for (const Answer& answer : answers) good += answer && !answer->empty() ? 1 : 0;
        return good;
    };
    EXPECT_EQ(call_all(), 8u);
    swarm.machines[0]->node.freeze();
    EXPECT_EQ(call_all(), 0u);
    EXPECT_EQ(client.remote.records().at(server).late, 8u);
    EXPECT_FALSE(client.remote.rests(server));  // a second after the first of them
    swarm.machines[0]->node.thaw();
    EXPECT_EQ(call_all(), 8u);
}

TEST(RemoteExperts, wrong_shapes_and_numbers_are_thrown_away_and_counted) {
    Swarm swarm(2);
    swarm.serve(grid_of_one, small_expert(), 1);
    Machine& client = *swarm.machines[1];
    const PeerId server = swarm.machines[0]->node.id();
    int kind = 0;
    swarm.world.on_send([&](const sim::World::Outgoing& sent) {
        if (!sent.is_answer || sent.method != forward_method) return;
        auto response = wire::decode<wire::ExpertResponse>(sent.payload).value();
        if (kind == 1) response.tensors.clear();
        if (kind == 2) response.tensors[0].size[0] = 1;
        if (kind == 3) response.tensors[0].buffer[3] = response.tensors[0].buffer[2] = 0xff;
        sent.payload = wire::encode(response);
        if (kind == 4) sent.payload = Bytes{0xff, 0xff};
    });
    Random random(7);
    const auto good = [&] {
        Answer answer = std::vector<Tensor>();
        swarm.world.run_task(
            forward(client, only_expert(swarm), random_tensor(random, 2, 8), answer));
        return answer.has_value();
    };
    EXPECT_TRUE(good());
    for (kind = 1; kind <= 4; ++kind) EXPECT_FALSE(good()) << kind;
    EXPECT_EQ(client.remote.records().at(server).wrong_shape, 3u);
    EXPECT_EQ(client.remote.records().at(server).not_finite, 1u);
    kind = 0;
    EXPECT_TRUE(good());
}

}  // namespace
}  // namespace dedloc::experts
