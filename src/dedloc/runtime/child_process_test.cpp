#include "dedloc/runtime/child_process.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

TEST(ChildProcess, inherits_neither_sockets_nor_a_sigpipe_that_is_ignored) {
    const Folder folder;
    const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_GT(descriptor, 2);
    const auto before = ::signal(SIGPIPE, SIG_IGN);
    auto child = ChildProcess::start(shell(folder, "ls -l /proc/self/fd; kill -PIPE $$"));
    ::signal(SIGPIPE, before);
    ::close(descriptor);
    ASSERT_TRUE(child) << to_string(child.error());
    ASSERT_TRUE(child->wait_for(30));
    EXPECT_EQ(child->end()->signal, SIGPIPE);
    const std::string files = content_of(folder.file("out"));
    EXPECT_NE(files.find("/dev/null"), std::string::npos) << files;
    EXPECT_EQ(files.find("socket:"), std::string::npos) << files;
}

TEST(ChildProcess, a_program_that_cannot_be_run_is_named_on_standard_error) {
    const Folder folder;
    ChildOptions options = shell(folder, "");
    options.command = {"sh", "-c", "true"};  // PATH is not searched
    auto child = ChildProcess::start(options);
    ASSERT_TRUE(child);
    ASSERT_TRUE(child->wait_for(30));
    EXPECT_EQ(child->end()->exit_code, 127);
    EXPECT_EQ(content_of(folder.file("err")), "dedloc: cannot run sh\n");
}

TEST(ChildProcess, may_allocate_no_more_than_its_limit) {
    const Folder folder;
    ChildOptions options = shell(folder, "ulimit -d");
    options.data_bytes_max = 256u << 20;
    auto child = ChildProcess::start(options);
    ASSERT_TRUE(child);
    ASSERT_TRUE(child->wait_for(30));
    EXPECT_EQ(content_of(folder.file("out")), "262144\n");  // KiB
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

TEST(ChildProcess, what_it_started_is_killed_with_it) {
    const Folder folder;
    // A living child holds the pipe's writing end open.
    ASSERT_EQ(::mkfifo(folder.file("out").c_str(), 0600), 0);
    const int reader = ::open(folder.file("out").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(reader, 0);
    pollfd waited{.fd = reader, .events = POLLIN, .revents = 0};
    char letter = 0;
    {
        auto child = ChildProcess::start(shell(folder, "sleep 1000 & echo; wait"));
        ASSERT_TRUE(child) << to_string(child.error());
        ASSERT_EQ(::poll(&waited, 1, 30'000), 1);
        ASSERT_EQ(::read(reader, &letter, 1), 1);
    }
    EXPECT_EQ(::poll(&waited, 1, 30'000), 1) << "somebody is left behind";
    EXPECT_EQ(::read(reader, &letter, 1), 0);
    ::close(reader);
}

}  // namespace
}  // namespace dedloc::runtime
