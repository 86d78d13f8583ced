// What a pool of workers does when a worker crashes, when none can be started, and when the file of
// results is another run's.

#include "lab/seed_pool.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "lab/temporary_folder.h"

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

TEST(SeedPool, results_of_other_options_are_not_mixed_with_these) {
    const auto folder = TemporaryFolder::make();
    ASSERT_TRUE(folder);
    const std::string file = folder->path() + "/results";
    SeedPool first(options("5-20", file), job);
    ASSERT_TRUE(first.load_resumed());
    ASSERT_TRUE(first.run());

    SeedPool same(options("5-20", file), job);
    ASSERT_TRUE(same.load_resumed());
    ASSERT_EQ(same.results().size(), 6u);
    EXPECT_TRUE(same.results().at(crashing).crashed);
    EXPECT_EQ(same.results().at(4).commits, 4u);

    SeedPool other(options("3-8", file), job);
    const Ok loaded = other.load_resumed();
    ASSERT_FALSE(loaded);
    EXPECT_NE(loaded.error().message().find("--peers: 5-20 there, 3-8 here"), std::string::npos)
        << loaded.error().message();
    EXPECT_EQ(loaded.error().message().find("--delayed"), std::string::npos);
}

TEST(SeedPool, an_older_file_does_not_tell_its_options_and_is_believed) {
    const auto folder = TemporaryFolder::make();
    ASSERT_TRUE(folder);
    const std::string file = folder->path() + "/results";
    std::ofstream(file) << to_line(3, job(3)) << "\n";
    SeedPool pool(options("5-20", file), job);
    ASSERT_TRUE(pool.load_resumed());
    EXPECT_EQ(pool.results().size(), 1u);
}

}  // namespace
}  // namespace dedloc::lab
