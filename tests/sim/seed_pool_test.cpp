// A pool of workers when a worker crashes, when none can be started, and when the file of
// results is another run's.

#include "tests/sim/seed_pool.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/temporary_folder.h"

namespace dedloc::lab {
namespace {

constexpr std::uint64_t crashing = 2;
constexpr std::uint64_t breaking = 5;

SeedResult job(std::uint64_t number) {
    if (number == crashing) std::_Exit(1);
    SeedResult result;
    result.commits = number;
    if (number == breaking) result.violations = {"a promise is broken"};
    return result;
}

SeedPoolOptions options(const std::string& peers, const std::string& resume_file = "") {
    SeedPoolOptions options;
    options.count = 6;
    options.resume_file = resume_file;
    options.decides = {{"peers", peers}, {"delayed", "no"}};
    options.again = [](std::uint64_t number) { return std::to_string(number); };
    return options;
}

// A campaign that keeps its results in a file.
class ResumedSeedPool : public ::testing::Test {
  protected:
    TemporaryFolder folder_ = TemporaryFolder::make().value();
    std::string file_ = folder_.path() + "/results";
};

TEST(SeedPool, a_worker_that_crashes_is_a_failure_but_no_broken_promise) {
    SeedPool pool(options("5-20"), job);
    ASSERT_TRUE(pool.run());
    ASSERT_EQ(pool.results().size(), 6u);
    EXPECT_TRUE(pool.results().at(crashing).failed());
    EXPECT_FALSE(pool.results().at(crashing).broke_a_promise());
    EXPECT_TRUE(pool.results().at(breaking).broke_a_promise());
    EXPECT_FALSE(pool.results().at(1).failed());
}

TEST(SeedPool, a_crash_does_not_end_the_search_for_a_planted_bug) {
    SeedPoolOptions searching = options("5-20");
    searching.count = 100;
    searching.workers = 1;
    searching.stop_when_found = true;
    SeedPool pool(searching, job);
    ASSERT_TRUE(pool.run());
    EXPECT_EQ(pool.results().size(), breaking);
}

TEST(SeedPool, fewer_than_were_asked_for_is_an_error) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{0, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    SeedPool pool(options("5-20"), job);
    const Ok ran = pool.run();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_FALSE(ran);
    EXPECT_NE(ran.error().message().find("only 0 of 6 seeds were run"), std::string::npos)
        << ran.error().message();
}

TEST_F(ResumedSeedPool, results_of_other_options_are_not_mixed_with_these) {
    SeedPool first(options("5-20", file_), job);
    ASSERT_TRUE(first.load_resumed());
    ASSERT_TRUE(first.run());

    SeedPool same(options("5-20", file_), job);
    ASSERT_TRUE(same.load_resumed());
    EXPECT_EQ(same.results().size(), 5u);
    EXPECT_EQ(same.results().at(4).commits, 4u);

    SeedPool other(options("3-8", file_), job);
    const Ok loaded = other.load_resumed();
    ASSERT_FALSE(loaded);
    EXPECT_NE(loaded.error().message().find("peers: 5-20 there, 3-8 here"), std::string::npos)
        << loaded.error().message();
    EXPECT_EQ(loaded.error().message().find("delayed"), std::string::npos);
}

TEST_F(ResumedSeedPool,
       what_a_file_does_not_tell_is_believed_with_a_warning_and_what_differs_is_refused) {
    SeedPool older(options("5-20", file_), job);
    ASSERT_TRUE(older.load_resumed());
    ASSERT_TRUE(older.run());

    SeedPoolOptions with_engine = options("5-20", file_);
    with_engine.decides.emplace_back("engine", "0123");
    SeedPool newer(with_engine, job);
    testing::internal::CaptureStderr();
    ASSERT_TRUE(newer.load_resumed());
    const std::string warning = testing::internal::GetCapturedStderr();
    EXPECT_NE(warning.find("does not tell of which engine"), std::string::npos) << warning;
    EXPECT_EQ(newer.results().size(), 5u);

    SeedPoolOptions told = with_engine;
    told.resume_file = folder_.path() + "/told";
    ASSERT_TRUE(SeedPool(told, job).load_resumed());
    told.decides.back().second = "4567";
    const Ok loaded = SeedPool(told, job).load_resumed();
    ASSERT_FALSE(loaded);
    EXPECT_NE(loaded.error().message().find("engine: 0123 there, 4567 here"), std::string::npos)
        << loaded.error().message();
}

TEST_F(ResumedSeedPool, a_crashed_one_runs_again_when_a_campaign_is_resumed) {
    SeedPool first(options("5-20", file_), job);
    ASSERT_TRUE(first.load_resumed());
    ASSERT_TRUE(first.run());
    EXPECT_TRUE(first.results().at(crashing).crashed);

    const auto mended = [](std::uint64_t number) {
        SeedResult result;
        result.commits = 10 * number;
        return result;
    };
    SeedPool again(options("5-20", file_), mended);
    ASSERT_TRUE(again.load_resumed());
    ASSERT_TRUE(again.run());
    EXPECT_FALSE(again.results().at(crashing).failed());
    EXPECT_EQ(again.results().at(crashing).commits, 10 * crashing);
    EXPECT_TRUE(again.results().at(breaking).failed()) << "only crashed ones run again";

    SeedPool third(options("5-20", file_), job);
    ASSERT_TRUE(third.load_resumed());
    EXPECT_EQ(third.results().size(), 6u);
}

TEST_F(ResumedSeedPool, what_follows_a_torn_line_is_kept) {
    SeedPool first(options("5-20", file_), job);
    ASSERT_TRUE(first.load_resumed());
    std::ofstream(file_, std::ios::app) << to_line(1, job(1)).substr(0, 40);
    SeedPoolOptions in_order = options("5-20", file_);
    in_order.workers = 1;
    SeedPool second(in_order, job);
    ASSERT_TRUE(second.load_resumed());
    ASSERT_TRUE(second.run());
    SeedPool third(options("5-20", file_), job);
    ASSERT_TRUE(third.load_resumed());
    EXPECT_EQ(third.results().size(), 5u);  // and one that crashed
}

// The disk is full while the first two are kept, and then it is not.
TEST_F(ResumedSeedPool, results_that_cannot_be_written_are_told_once_and_later_ones_are_kept) {
    constexpr std::size_t size_max = 8192;
    ASSERT_TRUE(SeedPool(options("5-20", file_), job).load_resumed());
    std::ofstream(file_, std::ios::app) << std::string(size_max, '\n');
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    ::signal(SIGXFSZ, SIG_IGN);
    SeedPoolOptions one_worker = options("5-20", file_);
    one_worker.workers = 1;
    one_worker.again = [&](std::uint64_t) {  // asked for when a failed one has been kept, or not
        EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
        return std::string();
    };
    SeedPool pool(one_worker, job);
    ASSERT_TRUE(pool.load_resumed());
    testing::internal::CaptureStderr();
    const rlimit full{size_max, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
    const Ok ran = pool.run();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    const std::string said = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(ran);
    const std::size_t told = said.find("results are lost");
    EXPECT_NE(told, std::string::npos) << said;
    EXPECT_EQ(said.find("results are lost", told + 1), std::string::npos) << said;

    SeedPool resumed(options("5-20", file_), job);
    ASSERT_TRUE(resumed.load_resumed());
    for (const std::uint64_t kept : {3, 4, 5, 6}) EXPECT_TRUE(resumed.results().contains(kept));
}

// The pool's owner is killed while a worker is at work on a number that never ends. They hold the
// writing end of a pipe: its reader learns when the last one is gone.
TEST(SeedPool, workers_die_with_their_parent) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t parent = ::fork();
    ASSERT_GE(parent, 0);
    if (parent == 0) {
        ::close(pipe[0]);
        SeedPool pool(options("5-20"), [&](std::uint64_t) -> SeedResult {
            const pid_t self = ::getpid();
            if (::write(pipe[1], &self, sizeof self) != sizeof self) std::_Exit(1);
            for (;;) ::pause();
        });
        (void)pool.run();
        std::_Exit(0);
    }
    ::close(pipe[1]);
    pid_t worker = 0;
    ASSERT_EQ(::read(pipe[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
    pid_t other = 0;
    ASSERT_EQ(::read(pipe[0], &other, sizeof other), static_cast<ssize_t>(sizeof other));
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
    pollfd ended{pipe[0], POLLIN, 0};
    constexpr int timeout_ms = 20'000;
    EXPECT_EQ(::poll(&ended, 1, timeout_ms), 1) << "workers outlive their parent";
    if (ended.revents == 0) {
        ::kill(worker, SIGKILL);
        ::kill(other, SIGKILL);
    }
    ::close(pipe[0]);
}

TEST_F(ResumedSeedPool, an_older_file_does_not_tell_its_options_and_is_believed) {
    std::ofstream(file_) << to_line(3, job(3)) << "\n";
    SeedPool pool(options("5-20", file_), job);
    ASSERT_TRUE(pool.load_resumed());
    EXPECT_EQ(pool.results().size(), 1u);
}

}  // namespace
}  // namespace dedloc::lab
