#include "dedloc/api/queue.h"

#include <future>
#include <gtest/gtest.h>

namespace dedloc::api {
namespace {

// Runs until it may end, or is cancelled.
class HeldJob final : public Job {
  public:
    void run() override {
        begun.set_value();
        may_end.get_future().wait();
        ended.set_value();
    }
    void cancel() override {
        if (!cancelled.exchange(true)) may_end.set_value();
    }

    std::promise<void> begun;
    std::promise<void> may_end;
    std::promise<void> ended;
    std::atomic<bool> cancelled = false;
};

TEST(Queue, does_one_job_at_a_time_and_refuses_what_is_too_much) {
    Queue queue(2);
    std::vector<std::shared_ptr<HeldJob>> jobs;
    for (int i = 0; i < 4; ++i) jobs.push_back(std::make_shared<HeldJob>());
    ASSERT_TRUE(queue.push(jobs[0]));
    jobs[0]->begun.get_future().wait();
    EXPECT_TRUE(queue.push(jobs[1]));
    EXPECT_TRUE(queue.push(jobs[2]));
    EXPECT_FALSE(queue.push(jobs[3]));
    EXPECT_GE(queue.seconds_until_room(), 1);
    jobs[0]->cancel();
    jobs[1]->begun.get_future().wait();
    EXPECT_TRUE(queue.push(jobs[3]));
    for (const auto& job : jobs) queue.forget(job);
}

TEST(Queue, a_job_that_is_forgotten_makes_room_and_never_runs) {
    Queue queue(1);
    const auto first = std::make_shared<HeldJob>();
    const auto second = std::make_shared<HeldJob>();
    const auto third = std::make_shared<HeldJob>();
    ASSERT_TRUE(queue.push(first));
    first->begun.get_future().wait();
    ASSERT_TRUE(queue.push(second));
    EXPECT_FALSE(queue.push(third));
    queue.forget(second);
    EXPECT_TRUE(queue.push(third));
    queue.forget(first);
    third->begun.get_future().wait();
    EXPECT_EQ(second->begun.get_future().wait_for(std::chrono::seconds(0)),
              std::future_status::timeout);
    queue.forget(third);
}

TEST(Queue, its_end_cancels_what_runs_and_what_waits) {
    const auto running = std::make_shared<HeldJob>();
    const auto waiting = std::make_shared<HeldJob>();
    {
        Queue queue(1);
        ASSERT_TRUE(queue.push(running));
        running->begun.get_future().wait();
        ASSERT_TRUE(queue.push(waiting));
    }
    running->ended.get_future().wait();
    EXPECT_TRUE(waiting->cancelled);
}

}  // namespace
}  // namespace dedloc::api
