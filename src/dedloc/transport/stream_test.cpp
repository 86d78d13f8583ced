// Streams for coroutines, on two yamux sessions in one process.
#include "dedloc/transport/stream.h"

#include <gtest/gtest.h>

#include "dedloc/runtime/scope.h"
#include "dedloc/sim/world.h"

namespace dedloc::transport {
namespace {

class StreamTest : public ::testing::Test {
  protected:
    StreamTest() {
        server_.on_inbound = [this](auto stream) {
            accepted_ = std::make_shared<Stream>(
                std::move(stream), PeerId(), world_.executor(), node_.clock());
        };
        sender_ = *client_.open();
    }
    ~StreamTest() override { world_.run_task(scope_.stop()); }

    YamuxOptions options(bool is_client) {
        YamuxOptions options;
        options.is_client = is_client;
        options.now = [] { return TimePoint(1s); };
        if (!is_client) options.memory = memory_;
        return options;
    }
    // Waits until what was written is there, and whoever waited for it has run.
    void settle() {
        const auto move = [this](YamuxSession& from, YamuxSession& to) {
            Bytes wire;
            from.pull(8u << 20, [&](ByteView header, ByteView payload) {
                base::append(wire, header);
                base::append(wire, payload);
            });
            EXPECT_TRUE(to.feed(wire));
            world_.run_for(1ms);
        };
        for (int turns = 0; turns < 8; ++turns) {
            move(client_, server_);
            move(server_, client_);
        }
    }
    static Task<void> read_whole(std::shared_ptr<Stream> stream, Bytes* into) {
        auto filled = co_await stream->read_exactly(*into);
        EXPECT_TRUE(filled);
    }
    static Task<void> read(std::shared_ptr<Stream> stream, Result<std::optional<Bytes>>* out) {
        *out = co_await stream->read_prefixed(4u << 20);
    }

    sim::World world_{3};
    sim::SimNode& node_ = world_.add_node({});
    runtime::Scope scope_{world_.executor()};
    std::shared_ptr<StreamMemory> memory_ = std::make_shared<StreamMemory>();
    YamuxSession client_{options(true)};
    YamuxSession server_{options(false)};
    std::shared_ptr<YamuxStream> sender_;
    std::shared_ptr<Stream> accepted_;
};

TEST_F(StreamTest, what_has_come_of_a_message_counts_until_it_is_complete) {
    const Bytes message(1u << 20, 7);
    const Bytes whole = wire::with_length_prefix(message);
    const std::size_t half = whole.size() / 2;
    sender_->write(to_bytes(ByteView(whole).first(half)));
    settle();
    Result<std::optional<Bytes>> got = std::optional<Bytes>();
    scope_.spawn("read", read(accepted_, &got));
    settle();
    EXPECT_GE(memory_->received, half - frame_bytes_max);
    EXPECT_LE(memory_->received, half);

    sender_->write(to_bytes(ByteView(whole).subspan(half)));
    settle();
    ASSERT_TRUE(got && *got);
    EXPECT_EQ(**got, message);
    EXPECT_EQ(memory_->received, 0u);
}

TEST_F(StreamTest, what_had_come_before_it_was_read_counts_too) {
    sender_->write(Bytes(200'000));
    settle();
    EXPECT_EQ(memory_->received, 200'000u);
    Bytes message(300'000);
    scope_.spawn("read", read_whole(accepted_, &message));
    settle();
    EXPECT_EQ(memory_->received, 200'000u);
    sender_->write(Bytes(100'000));
    settle();
    EXPECT_EQ(memory_->received, 0u);
}

TEST_F(StreamTest, a_message_for_which_the_host_has_no_room_fails_its_stream) {
    memory_->received_max = 1u << 20;
    const Bytes whole = wire::with_length_prefix(Bytes(1u << 20));
    sender_->write(to_bytes(ByteView(whole).first(1000)));
    settle();
    Result<std::optional<Bytes>> got = std::optional<Bytes>();
    scope_.spawn("read", read(accepted_, &got));
    sender_->write(to_bytes(ByteView(whole).subspan(1000)));
    settle();
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().kind(), ErrorKind::overloaded);
    EXPECT_EQ(memory_->received, 0u);
}

}  // namespace
}  // namespace dedloc::transport
