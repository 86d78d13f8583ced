#include "dedloc/cli/memory.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <stdlib.h>
#include <string>

namespace dedloc::cli {
namespace {

constexpr std::uint64_t gib = 1ull << 30;

// A folder that plays /sys/fs/cgroup and /proc/self/cgroup.
class MemoryLimits : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "dedloc-memory-XXXXXX";
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

    std::filesystem::path folder_;
};

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

TEST_F(MemoryLimits, where_nothing_is_said_there_is_none) {
    EXPECT_EQ(left(), unlimited);
    write("own", "0::/");
    EXPECT_EQ(left(), unlimited);
    group("groups", "max", gib);
    EXPECT_EQ(left(), unlimited);
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

TEST(Memory, some_is_available_here) { EXPECT_GT(memory_available(), 0u); }

}  // namespace
}  // namespace dedloc::cli
