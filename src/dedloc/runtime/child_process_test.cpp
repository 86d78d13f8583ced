#include "dedloc/runtime/child_process.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace dedloc::runtime {
namespace {

class Folder {
  public:
    Folder() {
        std::string pattern = "/tmp/dedloc-child-XXXXXX";
        path_ = mkdtemp(pattern.data());
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string file(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

std::string content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

ChildOptions shell(const Folder& folder, const std::string& script) {
    return {.command = {"/bin/sh", "-c", script},
            .output_file = folder.file("out"),
            .error_file = folder.file("err"),
            .niceness = 0};
}

TEST(ChildProcess, runs_and_tells_how_it_ended) {
    const Folder folder;
    auto child = ChildProcess::start(shell(folder, "echo hello; echo oh >&2; exit 7"));
    ASSERT_TRUE(child) << to_string(child.error());
    ASSERT_TRUE(child->wait_for(30));
    EXPECT_EQ(child->end()->exit_code, 7);
    EXPECT_EQ(content_of(folder.file("out")), "hello\n");
    EXPECT_EQ(content_of(folder.file("err")), "oh\n");
}

TEST(ChildProcess, can_be_killed_and_is_never_left_behind) {
    const Folder folder;
    pid_t pid = 0;
    {
        auto child = ChildProcess::start(shell(folder, "exec sleep 1000"));
        ASSERT_TRUE(child);
        pid = child->pid();
        EXPECT_TRUE(child->running());
        EXPECT_FALSE(child->wait_for(0.01));
    }
    EXPECT_EQ(::kill(pid, 0), -1);
    auto child = ChildProcess::start(shell(folder, "exec sleep 1000"));
    ASSERT_TRUE(child);
    child->send(SIGKILL);
    ASSERT_TRUE(child->wait_for(30));
    EXPECT_EQ(child->end()->signal, SIGKILL);
}

}  // namespace
}  // namespace dedloc::runtime
