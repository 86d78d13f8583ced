// A host whose line has caps (runtime/limited_network.h), in virtual time: bulk takes the time that
// the cap says, and what is small goes beside it.
#include <algorithm>
#include <gtest/gtest.h>

#include "dedloc/p2p/host_testing.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/limited_network.h"
#include "dedloc/sim/world.h"

namespace dedloc::p2p {
namespace {

constexpr double cap = 1e6;  // bytes per second; the lines carry twelve times as much
constexpr std::size_t message_bytes = 50'000;
constexpr std::size_t messages = 60;
constexpr double bulk_seconds = message_bytes * messages / cap;
constexpr double framing = 1.02;  // of TLS and yamux

class CappedHostTest : public ::testing::Test {
  protected:
    CappedHostTest() {
        capped_host_ = make_host(capped_options()).value();
        other_host_ = make_host(simulated_host(world_, other_node_, 2)).value();
        for (Host* host : {capped_host_.get(), other_host_.get()}) {
            host->handle_call("echo", echo);
            host->handle_stream("bulk", [this](std::unique_ptr<MessageStream> stream) {
                return take(std::move(stream));
            });
        }
        capped_host_->add_addresses(other_host_->id(), other_host_->addresses());
        other_host_->add_addresses(capped_host_->id(), capped_host_->addresses());
    }
    ~CappedHostTest() override {
        world_.run_task(capped_host_->stop());
        world_.run_task(other_host_->stop());
    }

    HostOptions capped_options() {
        return {.executor = world_.executor(),
                .clock = capped_node_.clock(),
                .network = limited_,
                .random = Random(1),
                .identity = security::Identity::from_seed(Bytes(32, 1)).value(),
                .listen = {"/ip4/0.0.0.0/tcp/4001"},
                .announce = {}};
    }
    Task<void> take(std::unique_ptr<MessageStream> stream) {
        for (;;) {
            const auto message = co_await stream->read();
            if (!message || !message->has_value()) co_return;
            taken_ += (**message)->size();
        }
    }
    static Task<void> give(Host* from, PeerId to) {
        const TimePoint deadline = from->clock().now() + 5s;
        auto opened = co_await from->open_stream(to, "bulk", deadline);
        EXPECT_TRUE(opened);
        if (!opened) co_return;
        const std::unique_ptr<MessageStream> stream = *std::move(opened);
        for (std::size_t i = 0; i < messages; ++i) {
            Bytes message(message_bytes, 1);
            const auto written = co_await stream->write(std::move(message));
            EXPECT_TRUE(written);
        }
        (void)co_await stream->finish();
        (void)co_await stream->read();
    }
    // As long as the bulk goes.
    Task<void> ask_meanwhile(Host* from, PeerId to) {
        while (taken_ < message_bytes * messages) {
            const TimePoint asked = from->clock().now();
            const TimePoint deadline = asked + 5s;
            Bytes words(100, 1);
            auto answer = co_await from->call(to, "echo", std::move(words), deadline);
            EXPECT_TRUE(answer);
            slowest_answer_ = std::max(slowest_answer_, from->clock().now() - asked);
            ++answers_;
            co_await from->clock().sleep_for(20ms);
        }
    }
    // Seconds until all has arrived.
    double carry(Host& from, Host& to) {
        world_.run_task(ask_once(&from, to.id()));
        const TimePoint begun = world_.now();
        world_.scope().spawn("bulk", give(&from, to.id()));
        world_.scope().spawn("calls", ask_meanwhile(&from, to.id()));
        EXPECT_TRUE(world_.run_until([&] { return taken_ == message_bytes * messages; }, 1min));
        const double seconds = to_seconds(world_.now() - begun);
        world_.run_for(1s);
        return seconds;
    }
    static Task<void> ask_once(Host* from, PeerId to) {
        const TimePoint deadline = from->clock().now() + 5s;
        Bytes words(100, 1);
        auto answer = co_await from->call(to, "echo", std::move(words), deadline);
        EXPECT_TRUE(answer);
    }

    sim::World world_{3};
    sim::SimNode& capped_node_ = world_.add_node({});
    sim::SimNode& other_node_ = world_.add_node({});
    runtime::LimitedNetwork limited_{capped_node_.network(), capped_node_.clock()};
    std::unique_ptr<Host> capped_host_;
    std::unique_ptr<Host> other_host_;
    std::size_t taken_ = 0;
    Duration slowest_answer_{0};
    int answers_ = 0;
};

TEST_F(CappedHostTest, what_it_sends_obeys_its_cap_and_small_calls_go_beside_it) {
    limited_.set_caps({.up = cap, .down = 0});
    const double seconds = carry(*capped_host_, *other_host_);
    EXPECT_GT(seconds, bulk_seconds * 0.97);
    EXPECT_LT(seconds, bulk_seconds * framing + 0.2);
    EXPECT_GT(answers_, 10);
    EXPECT_LT(slowest_answer_, 200ms) << "40 ms of it are the way";
}

TEST_F(CappedHostTest, what_it_receives_obeys_its_cap_and_small_calls_go_beside_it) {
    limited_.set_caps({.up = 0, .down = cap});
    const double seconds = carry(*other_host_, *capped_host_);
    EXPECT_GT(seconds, bulk_seconds * 0.97);
    EXPECT_LT(seconds, bulk_seconds * framing + 0.2);
    EXPECT_GT(answers_, 1);
}

TEST_F(CappedHostTest, without_caps_it_is_as_fast_as_its_line) {
    const double seconds = carry(*capped_host_, *other_host_);
    EXPECT_LT(seconds, bulk_seconds / 5);
}

TEST_F(CappedHostTest, a_cap_that_is_lifted_meanwhile_holds_back_nothing_any_more) {
    limited_.set_caps({.up = cap / 10, .down = 0});
    capped_node_.clock().call_at(capped_node_.clock().now() + 2s,
                                 [this] { limited_.set_caps({}); });
    const double seconds = carry(*capped_host_, *other_host_);
    EXPECT_GT(seconds, 1.5);
    EXPECT_LT(seconds, 3.0);
}

}  // namespace
}  // namespace dedloc::p2p
