// Waiting, scopes, deadlines and worker threads on a real loop.

#include <atomic>
#include <gtest/gtest.h>
#include <thread>

#include "dedloc/runtime/children.h"
#include "dedloc/runtime/deadline.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/runtime_testing.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/runtime/suspend.h"
#include "dedloc/runtime/together.h"

namespace dedloc::runtime {
namespace {

struct Fixture {
    Loop loop;
    std::unique_ptr<Clock> clock = real_clock(loop.executor());
};

Task<void> set_flag_when(Event& event, bool& flag) {
    co_await event.wait();
    flag = true;
}

TEST(Event, set_wakes_all_who_wait_and_stays_set) {
    Fixture f;
    Event event(f.loop.executor());
    bool first = false;
    bool second = false;
    auto body = [](Fixture& fixture, Event& e, bool& a, bool& b) -> Task<void> {
        Scope scope(fixture.loop.executor());
        scope.spawn("a", set_flag_when(e, a));
        scope.spawn("b", set_flag_when(e, b));
        co_await a_moment(*fixture.clock);
        EXPECT_FALSE(a);
        e.set();
        EXPECT_FALSE(a);  // never re-entered
        co_await a_moment(*fixture.clock);
        co_await e.wait();
        co_await scope.stop();
    };
    f.loop.run_task(body(f, event, first, second));
    EXPECT_TRUE(first && second);
}

TEST(Event, pulse_wakes_without_staying_set) {
    Fixture f;
    Event event(f.loop.executor());
    bool woken = false;
    auto body = [](Fixture& fixture, Event& e, bool& flag) -> Task<void> {
        Scope scope(fixture.loop.executor());
        scope.spawn("a", set_flag_when(e, flag));
        co_await a_moment(*fixture.clock);
        e.pulse();
        EXPECT_FALSE(e.is_set());
        const TimePoint soon = fixture.clock->now() + 2ms;
        const bool again = co_await e.wait_until(*fixture.clock, soon);
        EXPECT_FALSE(again);
        co_await scope.stop();
    };
    f.loop.run_task(body(f, event, woken));
    EXPECT_TRUE(woken);
}

TEST(Event, wait_until_tells_an_event_from_a_deadline) {
    Fixture f;
    Event event(f.loop.executor());
    auto body = [](Fixture& fixture, Event& e) -> Task<void> {
        const TimePoint start = fixture.clock->now();
        const TimePoint soon = start + 5ms;
        const bool before = co_await e.wait_until(*fixture.clock, soon);
        EXPECT_FALSE(before);
        EXPECT_GE(fixture.clock->now(), soon);
        fixture.clock->call_at(start + 10ms, [&e] { e.set(); });
        const TimePoint late = start + 60s;
        const bool after = co_await e.wait_until(*fixture.clock, late);
        EXPECT_TRUE(after);
        EXPECT_LT(fixture.clock->now(), late);
    };
    f.loop.run_task(body(f, event));
}

TEST(Event, destroying_the_event_while_a_cancelled_task_waits_is_harmless) {
    Fixture f;
    auto event = std::make_unique<Event>(f.loop.executor());
    bool flag = false;
    auto body = [](Fixture& fixture, std::unique_ptr<Event>& e, bool& woken) -> Task<void> {
        Scope scope(fixture.loop.executor());
        scope.spawn("a", set_flag_when(*e, woken));
        co_await a_moment(*fixture.clock);
        e.reset();
        co_await scope.stop();
    };
    f.loop.run_task(body(f, event, flag));
    EXPECT_FALSE(flag);
}

TEST(Channel, delivers_in_order_and_holds_back_a_fast_writer) {
    Fixture f;
    Channel<int> channel(f.loop.executor(), 2);
    std::vector<int> got;
    auto writer = [](Channel<int>& to) -> Task<void> {
        for (int i = 0; i < 100; ++i) {
            const bool pushed = co_await to.push(i);
            EXPECT_TRUE(pushed);
            EXPECT_LE(to.size(), 2u);
        }
        to.close();
    };
    auto body = [](Fixture& fixture,
                   Channel<int>& from,
                   std::vector<int>& out,
                   Task<void> write) -> Task<void> {
        Scope scope(fixture.loop.executor());
        scope.spawn("writer", std::move(write));
        for (;;) {
            auto item = co_await from.pop();
            if (!item) break;
            out.push_back(*item);
        }
        co_await scope.stop();
    };
    f.loop.run_task(body(f, channel, got, writer(channel)));
    ASSERT_EQ(got.size(), 100u);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], i);
    EXPECT_FALSE(channel.try_push(1));
}

struct Witness {
    explicit Witness(int& given) : count(given) { ++count; }
    ~Witness() { --count; }
    int& count;
};

Task<void> sleep_forever(Clock& clock, int& alive) {
    const Witness witness(alive);
    co_await clock.sleep_until(TimePoint::never());
}

TEST(Scope, stop_cancels_and_joins_every_task) {
    Fixture f;
    int alive = 0;
    auto body = [](Fixture& fixture, int& count) -> Task<void> {
        Scope scope(fixture.loop.executor());
        for (int i = 0; i < 10; ++i) scope.spawn("sleeper", sleep_forever(*fixture.clock, count));
        EXPECT_EQ(count, 0);  // nothing starts inside spawn
        co_await a_moment(*fixture.clock);
        EXPECT_EQ(count, 10);
        EXPECT_EQ(scope.running(), 10u);
        co_await scope.stop();
        EXPECT_EQ(count, 0);
        EXPECT_EQ(scope.running(), 0u);
        EXPECT_EQ(scope.spawn("late", sleep_forever(*fixture.clock, count)), 0u);
        co_await scope.stop();
    };
    f.loop.run_task(body(f, alive));
}

TEST(Scope, a_task_cancelled_before_it_starts_never_runs) {
    Fixture f;
    bool ran = false;
    auto task = [](bool& flag) -> Task<void> {
        flag = true;
        co_return;
    };
    auto body = [](Fixture& fixture, Task<void> inner) -> Task<void> {
        Scope scope(fixture.loop.executor());
        const TaskId id = scope.spawn("never", std::move(inner));
        scope.cancel_task(id);
        co_await a_moment(*fixture.clock);
        EXPECT_EQ(scope.running(), 0u);
        co_await scope.stop();
    };
    f.loop.run_task(body(f, task(ran)));
    EXPECT_FALSE(ran);
}

TEST(Scope, one_task_can_be_cancelled_alone) {
    Fixture f;
    int alive = 0;
    auto body = [](Fixture& fixture, int& count) -> Task<void> {
        Scope scope(fixture.loop.executor());
        const TaskId first = scope.spawn("first", sleep_forever(*fixture.clock, count));
        scope.spawn("second", sleep_forever(*fixture.clock, count));
        co_await a_moment(*fixture.clock);
        scope.cancel_task(first);
        co_await a_moment(*fixture.clock);
        EXPECT_EQ(count, 1);
        EXPECT_EQ(scope.names(), "second");
        scope.cancel_task(first);  // harmless
        co_await scope.stop();
    };
    f.loop.run_task(body(f, alive));
    EXPECT_EQ(alive, 0);
}

TEST(ScopeDeathTest, destroying_it_with_running_tasks_is_our_bug) {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    auto wrong = [] {
        Fixture f;
        int alive = 0;
        auto scope = std::make_unique<Scope>(f.loop.executor());
        scope->spawn("sleeper", sleep_forever(*f.clock, alive));
        scope.reset();
    };
    EXPECT_DEATH(wrong(), "sleeper");
}

TEST(ScopeDeathTest, an_exception_that_is_no_cancellation_is_our_bug) {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    auto wrong = [] {
        Fixture f;
        auto thrower = []() -> Task<void> {
            throw std::runtime_error("oh dear");
            co_return;
        };
        auto body = [](Fixture& fixture, Task<void> inner) -> Task<void> {
            Scope scope(fixture.loop.executor());
            scope.spawn("thrower", std::move(inner));
            co_await fixture.clock->sleep_for(10ms);
            co_await scope.stop();
        };
        f.loop.run_task(body(f, thrower()));
    };
    EXPECT_DEATH(wrong(), "thrower.*oh dear");
}

// Notes its number when it is cancelled.
Task<void> note_the_end(Event& never, int number, std::vector<int>& ends) {
    struct Note {
        ~Note() { ends.push_back(number); }
        std::vector<int>& ends;
        int number;
    };
    const Note note{ends, number};
    co_await never.wait();
}

Task<void> run_child(std::shared_ptr<Children> children, Task<void> task) {
    co_await children->run(std::move(task));
}

TEST(Children, stop_cancels_in_the_order_of_beginning_wherever_memory_lies) {
    Fixture f;
    std::vector<int> ends;
    auto body = [](Fixture& fixture, std::vector<int>& all_ends) -> Task<void> {
        const auto children = std::make_shared<Children>(fixture.loop.executor());
        Event never(fixture.loop.executor());
        Scope scope(fixture.loop.executor());
        // Tasks that end leave holes, so that the later ones lie in another order than they begin.
        std::vector<TaskId> early;
        for (int i = 0; i < 8; ++i)
            early.push_back(
                scope.spawn("early", run_child(children, note_the_end(never, i, all_ends))));
        co_await a_moment(*fixture.clock);
        for (const int i : {1, 6, 3, 4}) scope.cancel_task(early[static_cast<std::size_t>(i)]);
        co_await a_moment(*fixture.clock);
        all_ends.clear();
        for (int i = 8; i < 12; ++i)
            scope.spawn("late", run_child(children, note_the_end(never, i, all_ends)));
        co_await a_moment(*fixture.clock);
        co_await children->stop();
        co_await scope.stop();
    };
    f.loop.run_task(body(f, ends));
    EXPECT_EQ(ends, (std::vector<int>{0, 2, 5, 7, 8, 9, 10, 11}));
}

Task<Result<int>> answer_after(Clock& clock, Duration delay, int& alive) {
    const Witness witness(alive);
    co_await clock.sleep_for(delay);
    co_return 42;
}

TEST(Deadline, a_task_in_time_gives_its_result) {
    Fixture f;
    int alive = 0;
    auto body = [](Fixture& fixture, int& count) -> Task<void> {
        const TimePoint late = fixture.clock->now() + 60s;
        auto task = answer_after(*fixture.clock, 1ms, count);
        auto result = co_await with_deadline(*fixture.clock, late, "an answer", std::move(task));
        EXPECT_TRUE(result && *result == 42);
        auto quick = answer_after(*fixture.clock, 0ms, count);
        auto at_once = co_await with_deadline(*fixture.clock, late, "it", std::move(quick));
        EXPECT_TRUE(at_once && *at_once == 42);
        auto third = answer_after(*fixture.clock, 1ms, count);
        const TimePoint never = TimePoint::never();
        auto unlimited = co_await with_deadline(*fixture.clock, never, "it", std::move(third));
        EXPECT_TRUE(unlimited && *unlimited == 42);
    };
    f.loop.run_task(body(f, alive));
}

TEST(Deadline, a_late_task_is_cancelled_unwound_and_named) {
    Fixture f;
    int alive = 0;
    auto body = [](Fixture& fixture, int& count) -> Task<void> {
        const TimePoint soon = fixture.clock->now() + 5ms;
        auto task = answer_after(*fixture.clock, 3600s, count);
        auto result = co_await with_deadline(*fixture.clock, soon, "an answer", std::move(task));
        EXPECT_EQ(count, 0);
        EXPECT_FALSE(result);
        EXPECT_EQ(result.error().kind(), ErrorKind::timeout);
        EXPECT_EQ(result.error().message(), "an answer took longer than its deadline");
        co_await a_moment(*fixture.clock);  // the caller itself was not cancelled
    };
    f.loop.run_task(body(f, alive));
}

TEST(Deadline, cancelling_the_caller_unwinds_the_inner_task_first) {
    Fixture f;
    int alive = 0;
    bool went_on = false;
    auto waiter = [](Fixture& fixture, int& count, bool& flag) -> Task<void> {
        auto inner = answer_after(*fixture.clock, 3600s, count);
        const TimePoint outer_end = fixture.clock->now() + 3000s;
        const TimePoint inner_end = fixture.clock->now() + 2000s;
        auto middle = with_deadline(*fixture.clock, inner_end, "inner", std::move(inner));
        auto result = co_await with_deadline(*fixture.clock, outer_end, "outer", std::move(middle));
        flag = true;
    };
    auto body = [](Fixture& fixture, int& count, Task<void> inner) -> Task<void> {
        Scope scope(fixture.loop.executor());
        scope.spawn("waiter", std::move(inner));
        co_await a_moment(*fixture.clock);
        EXPECT_EQ(count, 1);
        co_await scope.stop();
        EXPECT_EQ(count, 0);
    };
    f.loop.run_task(body(f, alive, waiter(f, alive, went_on)));
    EXPECT_FALSE(went_on);
}

TEST(Deadline, an_exception_of_the_inner_task_passes_through) {
    Fixture f;
    auto thrower = []() -> Task<Result<int>> {
        throw std::runtime_error("oh dear");
        co_return 1;
    };
    auto body = [](Fixture& fixture, Task<Result<int>> inner) -> Task<void> {
        const TimePoint late = fixture.clock->now() + 60s;
        auto result = co_await with_deadline(*fixture.clock, late, "it", std::move(inner));
        ADD_FAILURE() << "went on";
    };
    EXPECT_THROW(f.loop.run_task(body(f, thrower())), std::runtime_error);
}

TEST(RealClock, timers_fire_in_order_and_cancelled_ones_do_not) {
    Fixture f;
    std::string order;
    auto body = [](Fixture& fixture, std::string& out) -> Task<void> {
        const TimePoint now = fixture.clock->now();
        fixture.clock->call_at(now + 4ms, [&out] { out += "c"; });
        fixture.clock->call_at(now + 2ms, [&out] { out += "a"; });
        const TimerId gone = fixture.clock->call_at(now + 3ms, [&out] { out += "x"; });
        fixture.clock->call_at(now + 3ms, [&out] { out += "b"; });
        fixture.clock->cancel_timer(gone);
        fixture.clock->cancel_timer(gone);
        fixture.clock->cancel_timer(0);
        EXPECT_EQ(fixture.clock->call_at(TimePoint::never(), [] {}), 0u);
        Event last(fixture.loop.executor());
        fixture.clock->call_at(now + 6ms, [&last] { last.set(); });
        co_await last.wait();
    };
    f.loop.run_task(body(f, order));
    EXPECT_EQ(order, "abc");
    EXPECT_GT(f.clock->wall_now(), 1.6e9);
}

TEST(Loop, post_from_another_thread_runs_on_the_loop) {
    Loop loop;
    std::thread::id ran_on;
    std::thread other([&loop, &ran_on] {
        loop.post([&loop, &ran_on] {
            ran_on = std::this_thread::get_id();
            loop.stop();
        });
    });
    loop.run();
    other.join();
    EXPECT_EQ(ran_on, std::this_thread::get_id());
    loop.keep_alive(false);
    loop.run();  // returns: nothing is left
}

TEST(Workers, run_work_elsewhere_and_bring_the_result_home) {
    Fixture f;
    auto workers = real_workers(f.loop.executor(), 3);
    std::atomic<int> done{0};
    auto job = [](Workers& pool, int i, std::atomic<int>& count) -> Task<void> {
        const auto home = std::this_thread::get_id();
        std::vector<int> input(1000, i);
        auto work = [input = std::move(input)]() mutable {
            for (int& value : input) value *= 2;
            return std::pair(std::move(input), std::this_thread::get_id());
        };
        auto result = co_await pool.run(std::move(work));
        EXPECT_EQ(result.first[7], 2 * i);
        EXPECT_NE(result.second, home);
        EXPECT_EQ(std::this_thread::get_id(), home);
        ++count;
    };
    auto body =
        [](Fixture& fixture, std::vector<Task<void>> jobs, std::atomic<int>& count) -> Task<void> {
        Scope scope(fixture.loop.executor());
        for (auto& task : jobs) scope.spawn("job", std::move(task));
        while (count < 200) co_await a_moment(*fixture.clock);
        co_await scope.stop();
    };
    std::vector<Task<void>> jobs;
    for (int i = 0; i < 200; ++i) jobs.push_back(job(*workers, i, done));
    f.loop.run_task(body(f, std::move(jobs), done));
    EXPECT_EQ(done, 200);
    EXPECT_EQ(workers->threads_count(), 3u);
}

TEST(Workers, idle_threads_help_with_a_loop_and_each_turn_is_made_once) {
    Fixture f;
    auto workers = real_workers(f.loop.executor(), 3);
    std::vector<std::atomic<int>> made(100);
    std::atomic<int> within = 0;
    auto body = [](Workers& pool,
                   std::vector<std::atomic<int>>& turns,
                   std::atomic<int>& begun) -> Task<void> {
        auto work = [&pool, &turns, &begun] {
            pool.parallel_for(turns.size(), [&](std::size_t i) {
                // The first two wait for each other: two threads are at it.
                ++begun;
                while (i < 2 && begun < 2) std::this_thread::yield();
                ++turns[i];
            });
            for (const auto& count : turns) EXPECT_EQ(count, 1);
            pool.parallel_for(0, [](std::size_t) { ADD_FAILURE() << "a turn of none"; });
        };
        co_await pool.run(work);
    };
    f.loop.run_task(body(*workers, made, within));
}

TEST(Workers, a_loop_within_each_of_many_jobs_ends_though_no_thread_is_idle) {
    Fixture f;
    auto workers = real_workers(f.loop.executor(), 2);
    std::atomic<int> made = 0;
    auto job = [](Workers& pool, std::atomic<int>& turns) -> Task<void> {
        auto work = [&pool, &turns] { pool.parallel_for(10, [&turns](std::size_t) { ++turns; }); };
        co_await pool.run(work);
    };
    std::vector<Task<void>> jobs;
    for (int i = 0; i < 50; ++i) jobs.push_back(job(*workers, made));
    f.loop.run_task(all_of(std::move(jobs)));
    EXPECT_EQ(made, 500);
}

TEST(Workers, a_cancelled_task_ends_only_after_its_work) {
    Fixture f;
    auto workers = real_workers(f.loop.executor(), 1);
    std::atomic<bool> release{false};
    std::atomic<bool> worked{false};
    auto job = [](Workers& pool, std::atomic<bool>& go, std::atomic<bool>& done) -> Task<void> {
        auto work = [&go, &done] {
            while (!go) std::this_thread::yield();
            done = true;
        };
        co_await pool.run(work);
        co_await pool.run(work);
        ADD_FAILURE() << "a cancelled task went on";
    };
    auto body = [](Fixture& fixture,
                   Task<void> inner,
                   std::atomic<bool>& go,
                   std::atomic<bool>& done) -> Task<void> {
        Scope scope(fixture.loop.executor());
        scope.spawn("job", std::move(inner));
        co_await a_moment(*fixture.clock);
        fixture.clock->call_at(fixture.clock->now() + 3ms, [&go] { go = true; });
        co_await scope.stop();
        EXPECT_TRUE(done);
    };
    f.loop.run_task(body(f, job(*workers, release, worked), release, worked));
}

}  // namespace
}  // namespace dedloc::runtime
