// Helper programs that behave, hang, flood, die or are not there.

#include "dedloc/runtime/router_port_mapper.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <signal.h>

#include "dedloc/runtime/real.h"

namespace dedloc::runtime {
namespace {

namespace fs = std::filesystem;

class RouterPortMapperTest : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "dedloc-helper-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { fs::remove_all(folder_); }

    std::string file(const std::string& name) const { return (folder_ / name).string(); }
    std::string helper(const std::string& script) const {
        const std::string path = file("helper");
        std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
        fs::permissions(path, fs::perms::owner_all);
        return path;
    }
    static Task<void> map_task(PortMapper* mapper,
                               TimePoint deadline,
                               std::optional<Result<PortMapping>>* out) {
        const PortWish wish{.internal_port = 4001, .external_port = 4002, .lease = 20min};
        auto mapping = co_await mapper->map(wish, deadline);
        out->emplace(std::move(mapping));
    }
    Result<PortMapping> map(const std::string& program, Duration timeout = 20s) {
        const auto mapper = router_port_mapper(loop_.executor(), *clock_, program);
        std::optional<Result<PortMapping>> mapping;
        loop_.run_task(map_task(mapper.get(), clock_->now() + timeout, &mapping));
        return *mapping;
    }

    fs::path folder_;
    Loop loop_;
    std::unique_ptr<Clock> clock_ = real_clock(loop_.executor());
};

TEST_F(RouterPortMapperTest, what_the_helper_says_is_believed_where_it_makes_sense) {
    const auto mapping =
        map(helper("echo \"$@\" >" + file("words") + "; echo mapped nat-pmp 203.0.113.2 7 60 -"));
    ASSERT_TRUE(mapping) << mapping.error().message();
    EXPECT_EQ(mapping->external.text(), "203.0.113.2:7");
    EXPECT_EQ(mapping->internal_port, 4001);
    std::string words;
    std::getline(std::ifstream(file("words")), words);
    EXPECT_EQ(words, "map 4001 4002 1200");
}

TEST_F(RouterPortMapperTest, a_helper_that_hangs_is_killed_when_time_is_up) {
    const TimePoint before = clock_->now();
    const auto mapping =
        map(helper("echo $$ >" + file("pid") + "; while :; do read x </dev/zero; done"), 3s);
    ASSERT_FALSE(mapping);
    EXPECT_EQ(mapping.error().kind(), ErrorKind::timeout);
    EXPECT_LT(clock_->now() - before, 10s);
    std::ifstream pid_file(file("pid"));
    int pid = 0;
    pid_file >> pid;
    ASSERT_GT(pid, 0) << "it had not begun";
    EXPECT_NE(::kill(pid, 0), 0) << "it is still there";
}

TEST_F(RouterPortMapperTest, a_helper_that_floods_or_dies_is_refused_and_gone) {
    for (const char* script : {"while :; do echo mapped; done", "kill -9 $$", "exit 3", "true"}) {
        const auto mapping = map(helper(script));
        ASSERT_FALSE(mapping) << script;
        EXPECT_EQ(mapping.error().kind(), ErrorKind::peer_broke_protocol) << script;
    }
}

TEST_F(RouterPortMapperTest, without_the_helper_it_says_which_program_is_missing) {
    const auto mapping = map(file("nothing"));
    ASSERT_FALSE(mapping);
    EXPECT_EQ(mapping.error().kind(), ErrorKind::local_fault);
    EXPECT_NE(mapping.error().message().find(file("nothing")), std::string::npos);
}

}  // namespace
}  // namespace dedloc::runtime
