#include "dedloc/runtime/machine.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <sched.h>
#include <stdlib.h>
#include <string>
#include <sys/resource.h>
#include <thread>

namespace dedloc::runtime {
namespace {

constexpr std::uint64_t gib = 1ull << 30;

// A folder that plays /sys/fs/cgroup and /proc/self/cgroup.
class MemoryLimits : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "dedloc-machine-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    void write(const std::string& name, const std::string& text) {
        const std::filesystem::path path = folder_ / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text << "\n";
    }
    void group(const std::string& name, const std::string& limit, std::uint64_t used) {
        write(name + "/memory.max", limit);
        write(name + "/memory.current", std::to_string(used));
    }
    std::uint64_t left() const {
        return memory_left_by_groups(folder_ / "groups", folder_ / "own");
    }

    double quota() const { return processors_by_groups(folder_ / "groups", folder_ / "own"); }

    std::filesystem::path folder_;
};

constexpr std::uint64_t no_limit_at_all = std::numeric_limits<std::uint64_t>::max();

TEST_F(MemoryLimits, where_nothing_is_said_there_is_none) {
    EXPECT_EQ(left(), no_limit_at_all);
    write("own", "0::/");
    EXPECT_EQ(left(), no_limit_at_all);
    group("groups", "max", gib);
    EXPECT_EQ(left(), no_limit_at_all);
}

TEST_F(MemoryLimits, a_container_has_what_its_limit_leaves) {
    write("own", "0::/");
    group("groups", std::to_string(4 * gib), 3 * gib);
    EXPECT_EQ(left(), gib);
    write("groups/memory.stat", "anon 1\nactive_file 1073741824\ninactive_file 536870912\nshmem 7");
    EXPECT_EQ(left(), gib + gib + gib / 2) << "files make room";
    group("groups", std::to_string(gib), 4 * gib);
    EXPECT_EQ(left(), 0u);
}

TEST_F(MemoryLimits, all_groups_outwards_count) {
    write("own", "0::/outer/inner");
    group("groups/outer/inner", std::to_string(8 * gib), gib);
    group("groups/outer", std::to_string(4 * gib), gib);
    group("groups/other", std::to_string(gib), 0);
    EXPECT_EQ(left(), 3 * gib);
}

TEST_F(MemoryLimits, version_1_is_understood) {
    write("own", "5:cpu,cpuacct:/box\n4:memory:/box\n0::/");
    write("groups/memory/memory.limit_in_bytes", "9223372036854771712");
    write("groups/memory/memory.usage_in_bytes", "5278449664");
    EXPECT_GT(left(), 1000 * gib);
    write("groups/memory/box/memory.limit_in_bytes", std::to_string(2 * gib));
    write("groups/memory/box/memory.usage_in_bytes", std::to_string(gib));
    write("groups/memory/box/memory.stat", "active_file 5\ntotal_active_file 1024");
    EXPECT_EQ(left(), gib + 1024);
}

TEST_F(MemoryLimits, a_quota_of_processors_is_the_least_of_all_groups_in_both_versions) {
    write("own", "0::/outer/inner");
    EXPECT_EQ(quota(), 0);
    write("groups/outer/inner/cpu.max", "max 100000");
    EXPECT_EQ(quota(), 0);
    write("groups/outer/cpu.max", "50000 100000");
    EXPECT_EQ(quota(), 0.5);
    write("own", "3:cpu,cpuacct:/box\n4:memory:/box");
    write("groups/cpu,cpuacct/box/cpu.cfs_quota_us", "-1");
    write("groups/cpu,cpuacct/box/cpu.cfs_period_us", "100000");
    EXPECT_EQ(quota(), 0);
    write("groups/cpu,cpuacct/cpu.cfs_quota_us", "250000");
    write("groups/cpu,cpuacct/cpu.cfs_period_us", "100000");
    EXPECT_EQ(quota(), 2.5);
}

TEST(Processors, one_that_is_left_is_one_thread) {
    EXPECT_GE(usable_processors(), 1u);
    EXPECT_LE(usable_processors(), processors());
    std::size_t usable = 0;
    std::thread pinned([&usable] {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(::sched_getcpu(), &one);
        ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
        usable = usable_processors();
    });
    pinned.join();
    EXPECT_EQ(usable, 1u);
}

TEST(Threads, as_many_as_are_allowed_can_be_started_and_the_limit_is_named_beyond) {
    EXPECT_TRUE(can_start_threads(4));
    // Without room for their stacks none can be started.
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
    rlimit tight = before;
    tight.rlim_cur = 1 << 20;
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &tight), 0);
    const auto refused = can_start_threads(64);
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("may not start another thread"), std::string::npos);
}

TEST(Memory, some_is_available_here) { EXPECT_GT(memory_available(), 0u); }

}  // namespace
}  // namespace dedloc::runtime
