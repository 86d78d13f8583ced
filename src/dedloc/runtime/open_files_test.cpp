#include "dedloc/runtime/open_files.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "dedloc/runtime/real.h"

namespace dedloc::runtime {
namespace {

// Gives the process another soft limit, until the end of the test.
class OpenFiles : public ::testing::Test {
  protected:
    OpenFiles() { EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0); }
    ~OpenFiles() override { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
    void allow(rlim_t files) {
        const rlimit limit{files, before_.rlim_max};
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    Task<void> accept_while_files_are_short(Listener* listener) {
        const TimePoint deadline = clock_->now() + 5s;
        auto caller = co_await network_->connect(listener->local(), deadline);
        EXPECT_TRUE(caller);
        allow(0);
        auto refused = co_await listener->accept();
        allow(before_.rlim_cur);
        EXPECT_TRUE(!refused && refused.error().kind() == ErrorKind::overloaded);
        auto accepted = co_await listener->accept();
        EXPECT_TRUE(accepted);
    }

    rlimit before_{};
    Loop loop_;
    std::unique_ptr<Clock> clock_ = real_clock(loop_.executor());
    std::unique_ptr<Network> network_ = real_network(loop_.executor());
};

TEST_F(OpenFiles, are_raised_to_what_the_system_allows) {
    allow(100);
    raise_open_files();
    EXPECT_EQ(open_files_allowed(), std::min<rlim_t>(before_.rlim_max, open_files_wanted));
}

TEST_F(OpenFiles, leave_room_for_files_and_strangers_beside_the_connections) {
    allow(1024);
    EXPECT_EQ(network_->connections_allowed(), 384u);
    allow(100);
    EXPECT_GT(network_->connections_allowed(), 0u);
}

TEST_F(OpenFiles, that_are_short_do_not_make_this_machine_lose_its_addresses) {
    const auto addresses = network_->interface_addresses();
    allow(0);
    const auto without = network_->interface_addresses();
    allow(before_.rlim_cur);
    EXPECT_EQ(without, addresses);
}

TEST_F(OpenFiles, that_are_short_are_told_apart_from_other_failures_of_a_listener) {
    const auto listener = network_->listen({.host = "127.0.0.1", .port = 0}).value();
    loop_.run_task(accept_while_files_are_short(listener.get()));
}

}  // namespace
}  // namespace dedloc::runtime
