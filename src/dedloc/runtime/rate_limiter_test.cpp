// A token bucket in virtual time.

#include "dedloc/runtime/rate_limiter.h"

#include <gtest/gtest.h>
#include <map>

#include "dedloc/runtime/real.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::runtime {
namespace {

// Goes on when the test says so.
class ManualClock final : public Clock {
  public:
    explicit ManualClock(Loop& loop) : loop_(loop) {}

    TimePoint now() const override { return now_; }
    WallSeconds wall_now() const override { return to_seconds(now_.since_start); }
    TimerId call_at(TimePoint deadline, std::function<void()> action) override {
        timers_[{deadline, ++timers_set_}] = std::move(action);
        return timers_set_;
    }
    void cancel_timer(TimerId timer) override {
        std::erase_if(timers_, [timer](const auto& entry) { return entry.first.second == timer; });
    }

    void advance(Duration by) {
        const TimePoint until = now_ + by;
        settle();
        while (!timers_.empty() && timers_.begin()->first.first <= until) {
            now_ = std::max(now_, timers_.begin()->first.first);
            auto action = std::move(timers_.begin()->second);
            timers_.erase(timers_.begin());
            action();
            settle();
        }
        now_ = until;
    }
    // All tasks that need no more time have gone on.
    void settle() { loop_.run_task(some_turns()); }
    TimerId timers_set() const { return timers_set_; }
    std::size_t timers_count() const { return timers_.size(); }

  private:
    static Task<void> some_turns() {
        for (int i = 0; i < 16; ++i) co_await next_turn();
    }

    Loop& loop_;
    TimePoint now_;
    TimerId timers_set_ = 0;
    std::map<std::pair<TimePoint, TimerId>, std::function<void()>> timers_;
};

// One way of a connection, and what has gone over it.
struct Mover {
    RateLimiter::Place place{};
    int portions = 0;
    std::size_t bytes = 0;
};

Task<void> move_once(RateLimiter& limiter, Mover& mover, std::size_t portion) {
    co_await limiter.wait(portion, mover.place);
    ++mover.portions;
    mover.bytes += portion;
}

Task<void> keep_moving(RateLimiter& limiter, Mover& mover, std::size_t portion) {
    for (;;) co_await move_once(limiter, mover, portion);
}

class RateLimiterTest : public testing::Test {
  protected:
    static constexpr std::size_t portion = portion_bytes_min;
    static constexpr std::size_t burst = burst_bytes_min;

    ~RateLimiterTest() override {
        scope_.cancel();
        clock_.settle();
    }
    void start(Mover& mover, std::size_t bytes = portion) {
        scope_.spawn("mover", keep_moving(limiter_, mover, bytes));
    }
    void start_one(Mover& mover, std::size_t bytes = portion) {
        scope_.spawn("mover", move_once(limiter_, mover, bytes));
    }
    std::size_t all_bytes() const { return movers_[0].bytes + movers_[1].bytes + movers_[2].bytes; }

    Loop loop_;
    ManualClock clock_{loop_};
    RateLimiter limiter_{clock_};
    Mover movers_[3];
    Scope scope_{loop_.executor()};
};

TEST_F(RateLimiterTest, in_any_time_no_more_goes_than_the_rate_and_one_burst) {
    constexpr double rate = 100'000;
    limiter_.set_rate(rate);
    for (Mover& mover : movers_) start(mover);
    for (int tenths = 1; tenths <= 100; ++tenths) {
        clock_.advance(100ms);
        EXPECT_LE(all_bytes(), rate * tenths / 10 + burst);
    }
    EXPECT_GE(all_bytes(), rate * 10 * 0.99);
}

TEST_F(RateLimiterTest, what_was_not_used_is_no_more_than_a_burst_later) {
    limiter_.set_rate(100'000);
    clock_.advance(1h);
    start(movers_[0]);
    clock_.advance(1ms);
    EXPECT_LE(movers_[0].bytes, burst + 100);
    EXPECT_GT(movers_[0].bytes, burst - portion);
}

TEST_F(RateLimiterTest, a_fast_ways_burst_is_some_time_of_its_rate) {
    constexpr double rate = 100e6;
    limiter_.set_rate(rate);
    EXPECT_EQ(limiter_.portion(), portion_bytes_max);
    start(movers_[0], limiter_.portion());
    clock_.advance(1s);
    EXPECT_LE(movers_[0].bytes, rate * (1 + to_seconds(burst_time)));
    EXPECT_GE(movers_[0].bytes, rate);
}

TEST_F(RateLimiterTest, who_waits_is_served_in_order) {
    limiter_.set_rate(100'000);
    for (Mover& mover : movers_) start(mover);
    clock_.advance(10s);
    for (const Mover& mover : movers_)
        EXPECT_NEAR(mover.portions, movers_[0].portions, 1 + burst / portion)
            << "who came first had the burst";
}

TEST_F(RateLimiterTest, a_small_message_waits_for_one_portion_of_each_that_came_before) {
    limiter_.set_rate(100'000);
    start(movers_[0]);
    start(movers_[1]);
    clock_.advance(1s);
    start_one(movers_[2], 100);
    clock_.advance(83ms);  // two portions of 4 KiB and itself
    EXPECT_EQ(movers_[2].bytes, 100u);
}

TEST_F(RateLimiterTest, more_than_the_bucket_holds_is_paid_by_who_comes_next) {
    limiter_.set_rate(100'000);
    start_one(movers_[0], 100'000);
    clock_.advance(0s);
    EXPECT_EQ(movers_[0].bytes, 100'000u);
    start_one(movers_[1], 1);
    clock_.advance(800ms);
    EXPECT_EQ(movers_[1].bytes, 0u);
    clock_.advance(100ms);
    EXPECT_EQ(movers_[1].bytes, 1u);
}

TEST_F(RateLimiterTest, without_a_rate_nobody_waits_and_no_timer_is_set) {
    EXPECT_FALSE(limiter_.limits());
    start_one(movers_[0], std::size_t{1} << 40);
    clock_.advance(0s);
    EXPECT_EQ(movers_[0].portions, 1);
    EXPECT_EQ(clock_.timers_set(), 0u);
}

TEST_F(RateLimiterTest, another_rate_counts_at_once_also_for_who_waits) {
    limiter_.set_rate(1'000);
    start(movers_[0]);
    clock_.advance(10s);
    const std::size_t slowly = movers_[0].bytes;
    EXPECT_LE(slowly, burst + 10'000u);
    limiter_.set_rate(1'000'000);
    clock_.advance(1s);
    EXPECT_GE(movers_[0].bytes, slowly + 990'000);
    limiter_.set_rate(1'000);
    clock_.advance(0s);
    const std::size_t fast = movers_[0].bytes;
    clock_.advance(10s);
    EXPECT_LE(movers_[0].bytes, fast + 10'000 + portion);
}

TEST_F(RateLimiterTest, when_there_is_no_limit_any_more_who_waits_goes_on) {
    limiter_.set_rate(1'000);
    start_one(movers_[0], burst);
    start_one(movers_[1], burst);
    start_one(movers_[2], burst);
    clock_.advance(1ms);
    EXPECT_EQ(all_bytes(), burst);
    limiter_.set_rate(0);
    clock_.advance(0s);
    EXPECT_EQ(all_bytes(), 3 * burst);
    EXPECT_EQ(clock_.timers_count(), 0u);
}

TEST_F(RateLimiterTest, who_leaves_its_place_goes_on_and_pays_nothing) {
    limiter_.set_rate(1'000);
    start_one(movers_[0], burst);
    clock_.advance(0s);
    start_one(movers_[1], burst);
    start_one(movers_[2], 1'000);
    clock_.advance(0s);
    movers_[1].place.leave();
    clock_.advance(0s);
    EXPECT_EQ(movers_[1].portions, 1);
    EXPECT_EQ(movers_[2].portions, 0);
    clock_.advance(16'384ms + 10ms);  // the timer is still that of who left
    EXPECT_EQ(movers_[2].portions, 1);
}

TEST_F(RateLimiterTest, a_cancelled_wait_holds_up_nobody) {
    limiter_.set_rate(1'000);
    start_one(movers_[0], burst);
    clock_.advance(0s);
    const TaskId waiting = scope_.spawn("gives up", move_once(limiter_, movers_[1], burst));
    clock_.advance(0s);
    scope_.cancel_task(waiting);
    start_one(movers_[2], 1'000);
    clock_.advance(17s);
    EXPECT_EQ(movers_[1].portions, 0);
    EXPECT_EQ(movers_[2].portions, 1);
}

TEST_F(RateLimiterTest, a_timer_that_outlives_the_limiter_does_nothing) {
    auto limiter = std::make_unique<RateLimiter>(clock_);
    limiter->set_rate(1'000);
    start_one(movers_[0], burst);
    scope_.spawn("first", move_once(*limiter, movers_[1], burst));
    const TaskId waiting = scope_.spawn("second", move_once(*limiter, movers_[2], burst));
    clock_.advance(0s);
    scope_.cancel_task(waiting);
    clock_.advance(0s);
    EXPECT_EQ(clock_.timers_count(), 1u);
    limiter.reset();
    clock_.advance(1min);
    EXPECT_EQ(movers_[2].portions, 0);
}

}  // namespace
}  // namespace dedloc::runtime
