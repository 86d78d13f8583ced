#include "dedloc/replica/step_computer.h"

#include <cmath>
#include <gtest/gtest.h>

#include "dedloc/codec/codec.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/suspend.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::replica {
namespace {

// Works at once, and counts.
class CountingWorkers final : public runtime::Workers {
  public:
    Task<void> run_erased(std::function<void()> work) override {
        ++count;
        work();
        co_return;
    }
    std::size_t threads_count() const override { return 1; }
    int count = 0;
};

run::RunFile three_numbers() {
    run::RunFile run;
    run.name = "three";
    run.optimizer.momentum = 0;
    run.optimizer.schedule.peak = 0.5;
    return run;
}

class StepComputerTest : public ::testing::Test {
  protected:
    StepComputerTest() {
        layout.parameters = {{.name = "w", .offset = 0, .count = 3}};
        layout.parameters_count = 3;
        auto snapshot = *initial_state(run, layout, {1, 1, 1}, {});
        auto published = std::make_shared<state::PublishedState>();
        published->manifest = state::make_manifest(*snapshot);
        published->snapshot = std::move(snapshot);
        before = std::move(published);
    }

    // A commit of one part that averages to `value` everywhere; the part is not in the store yet.
    consensus::Decision commit(float value) {
        consensus::RoundPlan plan;
        plan.codec = static_cast<std::uint32_t>(codec::CodecId::fp32);
        plan.parts = {{.offset = 0, .count = 3, .owner = 0}};
        consensus::FinishedPart part;
        part.digest = security::sha256(encoded(value));
        consensus::Decision decision;
        decision.state_before = before->root();
        decision.plan = wire::encode(plan);
        decision.parts = {part};
        return decision;
    }
    static Bytes encoded(float value) {
        const std::vector<float> average(3, value);
        return codec::encode(codec::CodecId::fp32, average);
    }
    void receive(const consensus::Decision& decision, float value) {
        parts.put(decision.parts[0], SharedBytes(encoded(value)));
    }

    // The parameter of the state after `decision`; NaN: an error.
    static float parameter(const Result<StepComputer::Stepped>& stepped) {
        return stepped ? parameters_of(*stepped->state->snapshot)[0] : std::nanf("");
    }
    void run_body(std::function<Task<void>()> body) {
        loop.run_task(body());
        loop.run_task(computer.stop());
    }
    static Task<void> some_turns() {
        for (int i = 0; i < 20; ++i) co_await runtime::next_turn();
    }

    runtime::Loop loop;
    CountingWorkers workers;
    allreduce::PartStore parts{1u << 20};
    run::RunFile run = three_numbers();
    run::Layout layout;
    StepComputer::StatePointer before;
    StepComputer computer{loop.executor(), workers, parts, run, layout};
};

TEST_F(StepComputerTest, what_was_expected_is_there_when_its_certificate_comes) {
    const consensus::Decision decision = commit(1);
    receive(decision, 1);
    run_body([&]() -> Task<void> {
        computer.expect(decision, before);
        co_await some_turns();
        const int jobs = workers.count;
        EXPECT_GT(jobs, 0);
        const auto stepped = co_await computer.step(decision, before);
        EXPECT_EQ(parameter(stepped), 0.5f);
        EXPECT_EQ(workers.count, jobs);
    });
}

TEST_F(StepComputerTest, a_certificate_that_comes_first_waits_for_what_was_begun) {
    const consensus::Decision decision = commit(1);
    receive(decision, 1);
    run_body([&]() -> Task<void> {
        computer.expect(decision, before);
        const auto stepped = co_await computer.step(decision, before);
        EXPECT_EQ(parameter(stepped), 0.5f);
        const int jobs = workers.count;
        const auto again = co_await computer.step(decision, before);
        EXPECT_EQ(parameter(again), 0.5f);
        EXPECT_EQ(workers.count, 2 * jobs);  // nobody keeps what was taken
    });
}

TEST_F(StepComputerTest, another_commit_than_the_expected_one_leads_to_its_own_state) {
    const consensus::Decision expected = commit(1);
    const consensus::Decision certified = commit(-1);
    receive(expected, 1);
    receive(certified, -1);
    run_body([&]() -> Task<void> {
        computer.expect(expected, before);
        co_await some_turns();
        const auto stepped = co_await computer.step(certified, before);
        EXPECT_EQ(parameter(stepped), 1.5f);
    });
}

TEST_F(StepComputerTest, the_same_commit_on_another_state_is_computed_anew) {
    const consensus::Decision decision = commit(1);
    receive(decision, 1);
    run_body([&]() -> Task<void> {
        computer.expect(decision, before);
        co_await some_turns();
        const auto first = co_await computer.step(decision, before);
        if (!first) co_return ADD_FAILURE();
        computer.expect(decision, before);
        const auto second = co_await computer.step(decision, first->state);
        EXPECT_EQ(parameter(second), 0.0f);
    });
}

TEST_F(StepComputerTest, an_average_that_was_missing_and_came_is_no_error) {
    const consensus::Decision decision = commit(1);
    run_body([&]() -> Task<void> {
        computer.expect(decision, before);
        co_await some_turns();
        receive(decision, 1);
        const auto stepped = co_await computer.step(decision, before);
        EXPECT_EQ(parameter(stepped), 0.5f);
    });
}

TEST_F(StepComputerTest, parts_that_do_not_fit_the_model_are_a_failure_of_peers) {
    for (const std::vector<consensus::PlanPart>& plan_parts :
         {std::vector<consensus::PlanPart>{{.offset = 1, .count = 3}},
          std::vector<consensus::PlanPart>{{.offset = 0, .count = 2}},
          std::vector<consensus::PlanPart>{{.offset = 0, .count = ~std::uint64_t{0}}},
          std::vector<consensus::PlanPart>{}}) {
        consensus::RoundPlan plan;
        plan.codec = static_cast<std::uint32_t>(codec::CodecId::fp32);
        plan.parts = plan_parts;
        EXPECT_FALSE(averaged_vector(layout, plan, {SharedBytes(encoded(1)), {}, {}}));
        const std::vector<SharedBytes> averages(plan_parts.size(), SharedBytes(encoded(1)));
        const auto vector = averaged_vector(layout, plan, averages);
        ASSERT_FALSE(vector);
        EXPECT_EQ(vector.error().kind(), ErrorKind::peer_broke_protocol);
    }
}

TEST_F(StepComputerTest, parts_are_read_in_the_codec_of_each_and_unknown_ones_are_an_error) {
    consensus::RoundPlan plan;
    plan.codec = static_cast<std::uint32_t>(codec::CodecId::fp32);
    plan.parts = {{.offset = 0, .count = 1}, {.offset = 1, .count = 2}};
    plan.parts[1].codec = static_cast<std::uint32_t>(codec::CodecId::fp16);
    const std::vector<SharedBytes> averages{
        SharedBytes(codec::encode(codec::CodecId::fp32, std::vector<float>{1.5f})),
        SharedBytes(codec::encode(codec::CodecId::fp16, std::vector<float>{-2, 0.25f}))};
    const auto vector = averaged_vector(layout, plan, averages);
    ASSERT_TRUE(vector);
    EXPECT_EQ(std::vector<float>(vector->view().begin(), vector->view().end()),
              (std::vector<float>{1.5f, -2, 0.25f}));
    plan.parts[1].codec = 0x101;
    EXPECT_EQ(averaged_vector(layout, plan, averages).error().kind(), ErrorKind::unsupported);
    plan.parts[1].codec = static_cast<std::uint32_t>(codec::CodecId::fp32);
    EXPECT_FALSE(averaged_vector(layout, plan, averages)) << "too few bytes";
}

// Promise 1 with any number of threads.
TEST(ModelState, the_next_state_has_the_same_bits_on_one_thread_and_on_many) {
    constexpr std::size_t count = 300'000;
    run::RunFile run = three_numbers();
    run.optimizer.kind = optim::OptimizerKind::lamb;
    run::Layout layout;
    layout.parameters = {{.name = "a", .offset = 0, .count = 200'000},
                         {.name = "b", .offset = 200'000, .count = 100'000}};
    layout.parameters_count = count;
    std::vector<float> numbers(count);
    for (std::size_t i = 0; i < count; ++i) numbers[i] = std::sin(static_cast<float>(i)) + 0.1f;
    consensus::RoundPlan plan;
    plan.codec = static_cast<std::uint32_t>(codec::CodecId::fp32);
    std::vector<SharedBytes> averages;
    for (std::size_t i = 0; i < 3; ++i) {
        plan.parts.push_back({.offset = i * (count / 3), .count = count / 3});
        const auto stretch = std::span<const float>(numbers).subspan(i * (count / 3), count / 3);
        averages.emplace_back(codec::encode(codec::CodecId::fp32, stretch));
    }
    const auto before = *initial_state(run, layout, numbers, {});
    const auto root_by = [&](const optim::ParallelFor& parallel_for) {
        const auto average = averaged_vector(layout, plan, averages, parallel_for);
        const auto next = next_state(
            run, layout, *before, consensus::Decision{}, average->view(), nullptr, parallel_for);
        return state::make_manifest(**next).root;
    };
    runtime::Loop loop;
    const auto workers = runtime::real_workers(loop.executor(), 4);
    const auto body = [](runtime::Workers& pool, std::function<void()> work) -> Task<void> {
        co_await pool.run(std::move(work));
    };
    Digest on_many;
    const std::function<void()> work = [&] {
        on_many = root_by(
            [&](std::size_t tasks, const auto& task) { workers->parallel_for(tasks, task); });
    };
    loop.run_task(body(*workers, work));
    EXPECT_EQ(on_many, root_by(optim::run_in_order));
}

}  // namespace
}  // namespace dedloc::replica
