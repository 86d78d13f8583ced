#include "dedloc/runtime/memory_use.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <vector>

#include "dedloc/runtime/machine.h"

namespace dedloc::runtime {
namespace {

constexpr std::uint64_t mebibyte = 1u << 20;

TEST(MemoryUse, counts_what_is_taken_and_what_work_took_meanwhile) {
    const OwnMemory before = own_memory();
    ASSERT_GT(before.resident, 0u);
    const std::uint64_t most = most_memory_during([] {
        const std::vector<char> block(64 * mebibyte, 1);
        EXPECT_EQ(block.back(), 1);
    });
    EXPECT_GE(most, 60 * mebibyte);
    EXPECT_LE(most, 90 * mebibyte);
    const std::vector<char> kept(64 * mebibyte, 1);
    EXPECT_GE(own_memory().resident + mebibyte, before.resident + kept.size());
    EXPECT_GE(own_memory().data + mebibyte, before.data + kept.size());
}

TEST(MemoryUse, knows_that_a_limit_leaves_no_more) {
    EXPECT_TRUE(can_take_memory(256 * mebibyte));
    rlimit old{};
    ASSERT_EQ(::getrlimit(RLIMIT_DATA, &old), 0);
    rlimit tight = old;
    tight.rlim_cur = own_memory().data + 100 * mebibyte;
    ASSERT_EQ(::setrlimit(RLIMIT_DATA, &tight), 0);
    const bool much = can_take_memory(256 * mebibyte);
    const bool little = can_take_memory(50 * mebibyte);
    ASSERT_EQ(::setrlimit(RLIMIT_DATA, &old), 0);
    EXPECT_FALSE(much);
    EXPECT_TRUE(little);
}

TEST(MemoryUse, that_leaves_no_stack_for_a_thread_is_said_to_do_so) {
    rlimit old{};
    ASSERT_EQ(::getrlimit(RLIMIT_DATA, &old), 0);
    rlimit tight = old;
    tight.rlim_cur = own_memory().data + 20 * mebibyte;
    ASSERT_EQ(::setrlimit(RLIMIT_DATA, &tight), 0);
    const Ok started = can_start_threads(64);
    ASSERT_EQ(::setrlimit(RLIMIT_DATA, &old), 0);
    ASSERT_FALSE(started);
    EXPECT_NE(started.error().message().find("ulimit -d"), std::string::npos)
        << started.error().message();
}

}  // namespace
}  // namespace dedloc::runtime
