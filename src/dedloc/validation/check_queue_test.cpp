#include "dedloc/validation/check_queue.h"

#include <gtest/gtest.h>

namespace dedloc::validation {
namespace {

using Reason = CheckQueue::Reason;

CheckQueue::Job job(std::uint32_t target, Reason reason, std::uint8_t round = 1) {
    CheckQueue::Job made;
    made.target = target;
    made.reason = reason;
    made.draw.bytes.fill(round);
    return made;
}

TEST(CheckQueue, MembersThatWeighComeFirstInTheirOrder) {
    CheckQueue queue;
    queue.add(job(1, Reason::newcomer));
    queue.add(job(2, Reason::drawn));
    queue.add(job(3, Reason::drawn));
    EXPECT_EQ(queue.take()->target, 2u);
    EXPECT_EQ(queue.take()->target, 3u);
    EXPECT_EQ(queue.take()->target, 1u);
    EXPECT_FALSE(queue.take());
}

TEST(CheckQueue, WhatWasDrawnComesBeforeWhatOthersLeftUndone) {
    CheckQueue queue;
    queue.add(job(1, Reason::deputy));
    queue.add(job(2, Reason::drawn));
    queue.add(job(3, Reason::newcomer));
    EXPECT_EQ(queue.take()->target, 2u);
    EXPECT_EQ(queue.take()->target, 1u);
}

TEST(CheckQueue, WhatIsDisputedComesBeforeAllElse) {
    CheckQueue queue;
    queue.add(job(1, Reason::newcomer));
    queue.add(job(2, Reason::drawn));
    queue.add(job(3, Reason::disputed));
    EXPECT_EQ(queue.take()->target, 3u);
}

TEST(CheckQueue, TheNewestOfNewcomersComesFirst) {
    CheckQueue queue;
    queue.add(job(1, Reason::newcomer, 1));
    queue.add(job(2, Reason::newcomer, 2));
    EXPECT_EQ(queue.take()->target, 2u);
    EXPECT_EQ(queue.take()->target, 1u);
}

TEST(CheckQueue, NewcomersOfOldRoundsAreForgottenAndMembersThatWeighAreNot) {
    CheckQueue queue;
    queue.add(job(1, Reason::newcomer, 1));
    queue.add(job(2, Reason::drawn, 1));
    queue.add(job(3, Reason::newcomer, 2));
    queue.forget_newcomers(job(0, Reason::newcomer, 1).draw);
    EXPECT_EQ(queue.size(), 2u);
    EXPECT_EQ(queue.take()->target, 2u);
    EXPECT_EQ(queue.take()->target, 3u);
}

TEST(CheckQueue, AFullQueueLosesItsOldestNewcomerOnly) {
    CheckQueue queue;
    for (std::uint32_t i = 0; i < CheckQueue::jobs_max; ++i)
        queue.add(job(i, i == 5 ? Reason::newcomer : Reason::drawn));
    queue.add(job(1000, Reason::drawn));
    EXPECT_EQ(queue.size(), CheckQueue::jobs_max);
    queue.add(job(1001, Reason::drawn));  // nobody gives way
    EXPECT_EQ(queue.size(), CheckQueue::jobs_max);
    std::uint32_t last = 0;
    while (const auto taken = queue.take()) last = taken->target;
    EXPECT_EQ(last, 1000u);
}

}  // namespace
}  // namespace dedloc::validation
