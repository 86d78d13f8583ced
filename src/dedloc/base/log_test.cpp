#include "dedloc/base/log.h"

#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <future>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

namespace dedloc::base {
namespace {

// A pipe in place of standard error while it lives; nobody reads it but the test.
class PipedStandardError {
  public:
    PipedStandardError() : before_(dup(STDERR_FILENO)) {
        EXPECT_EQ(pipe(ends_), 0);
        fcntl(ends_[0], F_SETFL, O_NONBLOCK);
        fill();
        std::fflush(stderr);
        dup2(ends_[1], STDERR_FILENO);
    }
    ~PipedStandardError() {
        dup2(before_, STDERR_FILENO);
        for (const int descriptor : {before_, ends_[0], ends_[1]}) close(descriptor);
    }
    std::string read_all() {
        std::string text;
        char buffer[4096];
        for (ssize_t size; (size = read(ends_[0], buffer, sizeof buffer)) > 0;)
            text.append(buffer, static_cast<std::size_t>(size));
        return text;
    }

  private:
    void fill() {
        fcntl(ends_[1], F_SETFL, O_NONBLOCK);
        for (const std::size_t size : {4096, 1}) {
            const std::string filling(size, '.');
            while (write(ends_[1], filling.data(), size) > 0) {
            }
        }
        fcntl(ends_[1], F_SETFL, 0);
    }

    int before_;
    int ends_[2] = {};
};

TEST(Log, nobody_waits_for_a_standard_error_that_takes_nothing_and_what_is_missing_is_said) {
    PipedStandardError standard_error;
    auto logging = std::async(std::launch::async, [] {
        for (int i = 0; i < 3; ++i) log(LogLevel::warning, "room", "line {}", i);
    });
    EXPECT_EQ(logging.wait_for(std::chrono::seconds(1)), std::future_status::ready);
    for (int i = 0; i < 10'000; ++i) {
        if (logging.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready) break;
        (void)standard_error.read_all();
    }
    EXPECT_EQ(standard_error.read_all().find("line"), std::string::npos);
    log(LogLevel::warning, "room", "line {}", 3);
    const std::string said = standard_error.read_all();
    EXPECT_TRUE(said.starts_with("log lines missing here: 3 ")) << said;
    EXPECT_TRUE(said.ends_with("W room: line 3\n")) << said;
}

TEST(Log, a_line_that_was_taken_in_part_is_ended_before_the_next) {
    PipedStandardError standard_error;
    (void)standard_error.read_all();
    const std::string longer(100'000, 'x');  // than what a pipe holds
    log(LogLevel::warning, "room", "{}", longer);
    log(LogLevel::warning, "room", "lost");
    std::string said = standard_error.read_all();
    EXPECT_LT(said.size(), longer.size());
    log(LogLevel::warning, "room", "next");
    said += standard_error.read_all();
    const std::string after = "W room: " + longer + "\nlog lines missing here: 1 ";
    EXPECT_NE(said.find(after), std::string::npos) << said.substr(said.size() - 200);
    EXPECT_TRUE(said.ends_with("W room: next\n"));
}

}  // namespace
}  // namespace dedloc::base
