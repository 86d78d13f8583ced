#include "dedloc/experts/memory_plan.h"

#include <gtest/gtest.h>
#include <regex>

namespace dedloc::experts {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

std::uint64_t taken(const MemoryPlan& plan, const MemoryNeeds& needs) {
    return plan.experts_max * (needs.expert + needs.beside) + plan.work + plan.copies +
           2 * plan.queued_bytes_max + plan.replies_bytes_max;
}

TEST(MemoryPlan, all_that_a_server_takes_is_within_what_it_may) {
    for (const std::uint64_t expert : {1, 10, 300})
        for (const std::uint64_t work : {1, 60, 900})
            for (const std::uint64_t call : {1, 16})
                for (std::uint64_t memory = 1; memory < 100'000; memory = memory * 5 / 4 + 1) {
                    const MemoryNeeds needs{.expert = expert * mebibyte,
                                            .beside = mebibyte,
                                            .work = work * mebibyte,
                                            .call = call * mebibyte};
                    const auto plan = plan_memory(memory * mebibyte, needs);
                    if (!plan) continue;
                    EXPECT_GE(plan->experts_max, 1u);
                    EXPECT_GE(plan->queued_bytes_max, 2 * needs.call);
                    EXPECT_LE(taken(*plan, needs), memory * mebibyte);
                    EXPECT_LE(plan->queued_bytes_max, 256 * mebibyte);
                }
}

// The advice holds: with so much, one expert is served.
TEST(MemoryPlan, says_how_much_one_expert_would_take) {
    for (const std::uint64_t expert : {1, 10, 300})
        for (const std::uint64_t work : {1, 60, 900}) {
            const MemoryNeeds needs{
                .expert = expert * mebibyte, .work = work * mebibyte, .call = 3 * mebibyte};
            const auto refused = plan_memory(mebibyte, needs);
            ASSERT_FALSE(refused);
            EXPECT_EQ(refused.error().kind(), ErrorKind::cannot_compute);
            std::smatch found;
            const std::string said(refused.error().message());
            ASSERT_TRUE(std::regex_search(said, found, std::regex("--memory (\\d+)"))) << said;
            EXPECT_TRUE(plan_memory(std::stoull(found[1]) * mebibyte, needs)) << said;
        }
}

}  // namespace
}  // namespace dedloc::experts
