// Handlers go on answering when their object goes away.

#include "dedloc/p2p/handlers.h"

#include <gtest/gtest.h>

#include "dedloc/sim/world.h"

namespace dedloc::p2p {
namespace {

constexpr const char* slow_call = "/test/slow/call";
constexpr const char* slow_stream = "/test/slow/stream";

// An object that takes its time over every answer.
struct Slow {
    Slow(Host& host, runtime::Clock& a_clock) : clock(a_clock), handlers(host) {
        handlers.on_call(slow_call,
                         [this](PeerId, Bytes request) { return answer(std::move(request)); });
        handlers.on_stream(slow_stream, [this](std::unique_ptr<MessageStream> stream) {
            return serve(std::move(stream));
        });
    }
    Task<Result<Bytes>> answer(Bytes request) {
        ++begun;
        co_await clock.sleep_for(10s);
        ++ended;
        co_return std::move(request);
    }
    Task<void> serve(std::unique_ptr<MessageStream> stream) {
        ++begun;
        (void)co_await stream->read();
        ++ended;
    }
    runtime::Clock& clock;
    int begun = 0;
    int ended = 0;
    Handlers handlers;
};

struct Two {
    Two() {
        sim::NodeOptions named;
        named.name = "asks";
        asks = &world.add_node(named);
        named.name = "answers";
        answers = &world.add_node(named);
        slow = std::make_unique<Slow>(answers->host(), answers->clock());
    }
    ~Two() { world.run_task(slow_ends()); }

    Task<void> slow_ends() {
        if (slow) co_await slow->handlers.stop();
    }
    Task<void> ask() {
        const TimePoint deadline = asks->clock().now() + 60s;
        Bytes request = to_bytes("hello");
        answer = co_await asks->host().call(answers->id(), slow_call, std::move(request), deadline);
        answered_at = world.now();
    }
    Task<void> end_after(Duration wait) {
        co_await answers->clock().sleep_for(wait);
        co_await slow->handlers.stop();
        slow.reset();
    }
    Task<void> ask_and_end() {
        runtime::Scope scope(asks->host().executor());
        scope.spawn("ask", ask());
        co_await end_after(2s);
        while (!answer) co_await answers->clock().sleep_for(10ms);
        co_await scope.stop();
    }
    Task<void> open_and_end() {
        const TimePoint deadline = asks->clock().now() + 60s;
        auto stream = co_await asks->host().open_stream(answers->id(), slow_stream, deadline);
        EXPECT_TRUE(stream);
        co_await end_after(2s);
        auto heard = co_await (*stream)->read();
        EXPECT_TRUE(!heard || !heard->has_value());
        answered_at = world.now();
    }

    sim::World world{1};
    sim::SimNode* asks = nullptr;
    sim::SimNode* answers = nullptr;
    std::unique_ptr<Slow> slow;
    std::optional<Result<Bytes>> answer;
    TimePoint answered_at;
};

TEST(Handlers, an_answer_in_time_is_the_handlers_own) {
    Two two;
    two.world.run_task(two.ask());
    ASSERT_TRUE(two.answer->has_value());
    EXPECT_EQ(as_text(**two.answer), "hello");
    EXPECT_EQ(two.slow->ended, 1);
}

TEST(Handlers, who_is_still_being_answered_hears_that_the_object_is_gone) {
    Two two;
    two.world.run_task(two.ask_and_end());
    ASSERT_TRUE(two.answer.has_value());
    ASSERT_FALSE(two.answer->has_value());
    EXPECT_EQ(two.answer->error().kind(), ErrorKind::peer_gone);
    EXPECT_LT(two.answered_at, TimePoint{5s});
}

TEST(Handlers, a_stream_that_is_still_being_served_ends_with_its_object) {
    Two two;
    two.world.run_task(two.open_and_end());
    EXPECT_LT(two.answered_at, TimePoint{5s});
}

TEST(Handlers, a_method_that_was_taken_off_is_unknown) {
    Two two;
    two.world.run_task(two.end_after(0s));
    two.world.run_task(two.ask());
    ASSERT_FALSE(two.answer->has_value());
    EXPECT_EQ(two.answer->error().kind(), ErrorKind::unsupported);
}

}  // namespace
}  // namespace dedloc::p2p
