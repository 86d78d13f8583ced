#include "dedloc/transport/yamux.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "dedloc/base/random.h"

namespace dedloc::transport {
namespace {

using wire::YamuxHeader;
using wire::YamuxType;

// Two sessions joined by two byte pipes, with a clock that only the test moves.
struct Pair {
    YamuxOptions common;  // of both ends
    TimePoint now{1s};
    YamuxSession client{options(true)};
    YamuxSession server{options(false)};
    Bytes to_server;
    Bytes to_client;
    std::vector<std::shared_ptr<YamuxStream>> accepted;

    explicit Pair(YamuxOptions both = {}) : common(std::move(both)) {
        server.on_inbound = [this](auto stream) { accepted.push_back(std::move(stream)); };
    }
    YamuxOptions options(bool is_client) {
        YamuxOptions options = common;
        options.is_client = is_client;
        options.now = [this] { return now; };
        return options;
    }
    static void pull_all(YamuxSession& session, Bytes& out, std::size_t bytes_max) {
        session.pull(bytes_max, [&](ByteView header, ByteView payload) {
            base::append(out, header);
            base::append(out, payload);
        });
    }
    // Moves bytes until nothing moves any more.
    void settle() {
        while (client.has_output() || server.has_output() || !to_server.empty() ||
               !to_client.empty()) {
            pull_all(client, to_server, 100000);
            pull_all(server, to_client, 100000);
            const Bytes a = std::move(to_server);
            const Bytes b = std::move(to_client);
            to_server.clear();
            to_client.clear();
            if (!server.failure()) (void)server.feed(a);
            if (!client.failure()) (void)client.feed(b);
            if (client.failure() && server.failure()) return;
        }
    }
    std::pair<std::shared_ptr<YamuxStream>, std::shared_ptr<YamuxStream>> open() {
        auto stream = client.open();
        EXPECT_TRUE(stream);
        (*stream)->write(to_bytes("!"));
        settle();
        EXPECT_FALSE(accepted.empty());
        std::uint8_t byte = 0;
        accepted.back()->read_some({&byte, 1});
        EXPECT_EQ(byte, '!');
        return {*stream, accepted.back()};
    }
};

Bytes read_all(YamuxStream& stream) {
    Bytes bytes(stream.readable_bytes());
    EXPECT_EQ(stream.read_some(bytes), bytes.size());
    return bytes;
}

Bytes frame(YamuxHeader header, ByteView payload = {}) {
    Bytes out;
    wire::put_yamux_header(out, header);
    base::append(out, payload);
    return out;
}

TEST(Yamux, bytes_go_both_ways_and_both_halves_close) {
    Pair pair;
    auto [client, server] = pair.open();
    client->write(to_bytes("question"));
    pair.settle();
    EXPECT_EQ(as_text(read_all(*server)), "question");
    server->write(to_bytes("answer"));
    server->finish();
    pair.settle();
    EXPECT_EQ(as_text(read_all(*client)), "answer");
    EXPECT_TRUE(client->at_end());
    EXPECT_FALSE(server->at_end());
    client->finish();
    pair.settle();
    EXPECT_TRUE(server->at_end());
    EXPECT_EQ(pair.client.streams_count(), 0u);
    EXPECT_EQ(pair.server.streams_count(), 0u);
}

// A reader of go-yamux's that wakes on the flag, before the frame's bytes are there, finds nothing.
TEST(Yamux, an_end_never_shares_a_frame_with_bytes) {
    Pair pair;
    auto [client, server] = pair.open();
    client->write(to_bytes("question"));
    client->finish();
    std::vector<std::pair<std::uint16_t, std::size_t>> frames;
    pair.client.pull(100000, [&](ByteView header, ByteView payload) {
        const auto parsed = wire::decode_yamux_header(header);
        ASSERT_TRUE(parsed);
        frames.emplace_back(parsed->flags, payload.size());
    });
    const std::vector<std::pair<std::uint16_t, std::size_t>> expected = {{0, 8},
                                                                         {wire::yamux_fin, 0}};
    EXPECT_EQ(frames, expected);
}

TEST(Yamux, a_reset_fails_the_other_side_and_both_forget) {
    Pair pair;
    auto [client, server] = pair.open();
    bool failed = false;
    server->on_failed = [&] { failed = true; };
    client->reset();
    pair.settle();
    EXPECT_TRUE(failed);
    ASSERT_TRUE(server->failure());
    EXPECT_EQ(server->failure()->kind(), ErrorKind::peer_gone);
    EXPECT_EQ(pair.client.streams_count() + pair.server.streams_count(), 0u);
}

TEST(Yamux, what_arrived_before_a_reset_can_still_be_read) {
    Pair pair;
    auto [client, server] = pair.open();
    server->write(to_bytes("last words"));
    pair.settle();
    server->reset();
    pair.settle();
    EXPECT_TRUE(client->failure());
    EXPECT_EQ(as_text(read_all(*client)), "last words");
}

TEST(Yamux, a_peer_that_does_not_read_gets_one_window_and_no_more) {
    Pair pair;
    auto [client, server] = pair.open();
    client->write(Bytes(1 << 20));
    pair.settle();
    EXPECT_EQ(server->readable_bytes(), window_bytes_start - 1u);  // one byte was used before
    EXPECT_EQ(client->queued_bytes(), (1u << 20) - window_bytes_start + 1u);
}

TEST(Yamux, bytes_go_straight_into_a_waiting_buffer_and_wake_it_once) {
    Pair pair;
    auto [client, server] = pair.open();
    Bytes buffer(300000);
    int wakes = 0;
    server->on_readable = [&] { ++wakes; };
    server->read_into(buffer);
    Bytes sent = base::Random(1).bytes(300007);
    client->write(sent);
    pair.settle();
    EXPECT_EQ(server->read_into_left(), 0u);
    EXPECT_TRUE(base::equal(buffer, ByteView(sent).first(300000)));
    EXPECT_TRUE(base::equal(read_all(*server), ByteView(sent).subspan(300000)));
    EXPECT_LE(wakes, 2);
}

// Measures what a reader who is always there lets the sender have in flight at most, 100 ms away.
std::size_t largest_window(Pair& pair) {
    auto [client, server] = pair.open();
    // Measure 100 ms of round trip first.
    EXPECT_TRUE(pair.server.tick());
    Pair::pull_all(pair.server, pair.to_client, 1000);
    pair.now = pair.now + 100ms;
    pair.settle();
    EXPECT_TRUE(pair.server.round_trip());
    if (!pair.server.round_trip()) return 0;
    EXPECT_EQ(*pair.server.round_trip(), Duration(100ms));
    client->write(Bytes(160u << 20));
    std::size_t largest = 0;
    for (int i = 0; i < 40; ++i) {
        pair.now = pair.now + 50ms;
        pair.settle();
        largest = std::max(largest, server->readable_bytes());
        read_all(*server);
    }
    return largest;
}

TEST(Yamux, a_fast_reader_on_a_long_way_gets_a_larger_window) {
    Pair pair;
    EXPECT_EQ(largest_window(pair), window_bytes_max);
}

TEST(Yamux, over_lanes_a_window_grows_to_what_a_long_fat_link_holds) {
    YamuxOptions options;
    options.window_max = lane_window_bytes_max;
    options.growth_max = lane_window_growth_bytes_max;
    Pair pair(options);
    EXPECT_EQ(largest_window(pair), lane_window_bytes_max);
}

TEST(Yamux, a_slow_reader_keeps_the_first_window) {
    Pair pair;
    auto [client, server] = pair.open();
    EXPECT_TRUE(pair.server.tick());
    pair.settle();
    client->write(Bytes(4u << 20));
    for (int i = 0; i < 20; ++i) {
        pair.now = pair.now + 1s;
        pair.settle();
        EXPECT_LE(server->readable_bytes(), window_bytes_start);
        read_all(*server);
    }
}

TEST(Yamux, sending_beyond_the_window_ends_the_session_with_a_go_away) {
    Pair pair;
    const Bytes payload(200000);
    const YamuxHeader header{
        .type = YamuxType::data, .flags = wire::yamux_syn, .stream_id = 1, .length = 200000};
    EXPECT_TRUE(pair.server.feed(frame(header, payload)));
    YamuxHeader more = header;
    more.flags = 0;
    const auto result = pair.server.feed(frame(more, payload));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind(), ErrorKind::peer_broke_protocol);
    Bytes out;
    Pair::pull_all(pair.server, out, 1000);
    EXPECT_EQ(out, frame({.type = YamuxType::go_away, .flags = 0, .stream_id = 0, .length = 1}));
}

TEST(Yamux, protocol_violations_end_the_session) {
    const std::vector<YamuxHeader> bad = {
        {.type = YamuxType::data, .flags = wire::yamux_syn, .stream_id = 2, .length = 0},
        {.type = YamuxType::data, .flags = 0, .stream_id = 0, .length = 4},
        {.type = YamuxType::data, .flags = wire::yamux_syn, .stream_id = 1, .length = 2u << 20},
        {.type = static_cast<YamuxType>(9), .flags = 0, .stream_id = 1, .length = 0},
    };
    for (const YamuxHeader& header : bad) {
        Pair pair;
        EXPECT_FALSE(pair.server.feed(frame(header))) << header.stream_id;
        EXPECT_TRUE(pair.server.failure());
    }
    Pair pair;
    const Bytes syn = frame(
        {.type = YamuxType::window_update, .flags = wire::yamux_syn, .stream_id = 1, .length = 0});
    EXPECT_TRUE(pair.server.feed(syn));
    EXPECT_FALSE(pair.server.feed(syn));
}

TEST(Yamux, streams_beyond_the_limit_are_refused_and_leave_nothing) {
    Pair pair;
    for (std::uint32_t i = 0; i < streams_inbound_max + 10; ++i) {
        const YamuxHeader syn{.type = YamuxType::window_update,
                              .flags = wire::yamux_syn,
                              .stream_id = 2 * i + 1,
                              .length = 0};
        ASSERT_TRUE(pair.server.feed(frame(syn)));
    }
    EXPECT_EQ(pair.server.streams_count(), streams_inbound_max);
    EXPECT_EQ(pair.accepted.size(), streams_inbound_max);
}

TEST(Yamux, opening_waits_for_acknowledgements) {
    Pair pair;
    std::vector<std::shared_ptr<YamuxStream>> streams;
    for (std::size_t i = 0; i < streams_unacknowledged_max; ++i) {
        auto stream = pair.client.open();
        ASSERT_TRUE(stream);
        (*stream)->write(to_bytes("x"));
        streams.push_back(*stream);
    }
    auto refused = pair.client.open();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind(), ErrorKind::overloaded);
    bool room = false;
    pair.client.on_room = [&] { room = true; };
    pair.settle();
    pair.accepted.front()->write(to_bytes("y"));
    pair.settle();
    EXPECT_TRUE(room);
    EXPECT_TRUE(pair.client.open());
}

TEST(Yamux, a_flood_of_pings_ends_the_session_instead_of_filling_memory) {
    Pair pair;
    Ok last;
    const Bytes ping =
        frame({.type = YamuxType::ping, .flags = wire::yamux_syn, .stream_id = 0, .length = 7});
    for (std::size_t i = 0; i < control_frames_max + 2 && last; ++i) last = pair.server.feed(ping);
    EXPECT_FALSE(last);
}

TEST(Yamux, answers_to_pings_go_before_queued_data) {
    Pair pair;
    auto [client, server] = pair.open();
    client->write(Bytes(200000));
    EXPECT_TRUE(pair.client.feed(
        frame({.type = YamuxType::ping, .flags = wire::yamux_syn, .stream_id = 0, .length = 42})));
    Bytes out;
    Pair::pull_all(pair.client, out, 1);
    EXPECT_EQ(
        out,
        frame({.type = YamuxType::ping, .flags = wire::yamux_ack, .stream_id = 0, .length = 42}));
}

TEST(Yamux, a_small_stream_overtakes_bulk_and_bulk_streams_take_turns) {
    Pair pair;
    auto first = *pair.client.open();
    auto second = *pair.client.open();
    auto small = *pair.client.open();
    first->write(Bytes(200000, 1));
    second->write(Bytes(200000, 2));
    small->write(Bytes(10, 3));
    std::string order;
    pair.client.pull(400000, [&](ByteView, ByteView payload) {
        if (!payload.empty()) order += static_cast<char>('0' + payload[0]);
    });
    EXPECT_EQ(order.substr(0, 5), "31212");
}

TEST(Yamux, a_silent_peer_is_given_up) {
    Pair pair;
    auto [client, server] = pair.open();
    EXPECT_TRUE(pair.client.tick());
    pair.settle();
    pair.now = pair.now + keep_alive_interval;
    EXPECT_TRUE(pair.client.tick());
    Bytes lost;
    Pair::pull_all(pair.client, lost, 1000);
    EXPECT_EQ(pair.client.next_tick(), pair.now + keep_alive_answer_max);
    pair.now = pair.now + keep_alive_answer_max;
    const auto result = pair.client.tick();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind(), ErrorKind::peer_gone);
    EXPECT_TRUE(client->failure());
    EXPECT_FALSE(server->failure());
}

TEST(Yamux, after_a_go_away_old_streams_go_on_and_new_ones_are_refused) {
    Pair pair;
    auto [client, server] = pair.open();
    pair.server.go_away();
    pair.settle();
    EXPECT_FALSE(pair.client.open());
    client->write(to_bytes("still here"));
    pair.settle();
    EXPECT_EQ(as_text(read_all(*server)), "still here");
}

TEST(Yamux, a_released_stream_still_delivers_what_was_finished) {
    Pair pair;
    auto [client, server] = pair.open();
    client->write(Bytes(100000));
    client->finish();
    client->release();
    pair.settle();
    EXPECT_EQ(server->readable_bytes(), 100000u);
    EXPECT_FALSE(server->failure());
    // The stream's other half stays open: reset after a while.
    pair.now = pair.now + stream_linger_max;
    EXPECT_TRUE(pair.client.tick());
    EXPECT_EQ(pair.client.streams_count(), 0u);
}

TEST(Yamux, unread_bytes_of_all_streams_are_bounded) {
    Pair pair;
    for (std::uint32_t i = 0; i < 400; ++i) {
        const YamuxHeader syn{.type = YamuxType::data,
                              .flags = wire::yamux_syn,
                              .stream_id = 2 * i + 1,
                              .length = window_bytes_start};
        ASSERT_TRUE(pair.server.feed(frame(syn, Bytes(window_bytes_start))));
    }
    std::size_t unread = 0;
    for (const auto& stream : pair.accepted)
        if (!stream->failure()) unread += stream->readable_bytes();
    EXPECT_LE(unread, connection_unread_bytes_max);
    EXPECT_GT(unread, connection_unread_bytes_max / 2);
}

// A session's peer that opens a stream and sends so much on it, which nobody reads.
Ok send_unread(Pair& pair, std::uint32_t stream, std::uint32_t bytes) {
    const YamuxHeader header{.type = YamuxType::data,
                             .flags = wire::yamux_syn,
                             .stream_id = 2 * stream + 1,
                             .length = bytes};
    return pair.server.feed(frame(header, Bytes(bytes)));
}

// Options of sessions on one host, with room for so much of either kind.
YamuxOptions sharing(std::size_t bytes_max, bool is_needed = false) {
    YamuxOptions options;
    options.memory = std::make_shared<StreamMemory>();
    options.memory->received_max = bytes_max;
    options.memory->queued_max = bytes_max;
    if (is_needed) options.is_needed = [] { return true; };
    return options;
}

TEST(Yamux, a_host_that_is_full_of_unread_bytes_refuses_those_who_sent_them_and_not_the_others) {
    YamuxOptions options = sharing(8u << 20);
    Pair greedy(options);
    for (std::uint32_t i = 0; i < 64; ++i) ASSERT_TRUE(send_unread(greedy, i, window_bytes_start));
    EXPECT_TRUE(greedy.accepted.back()->failure());
    const std::size_t taken = options.memory->received;
    EXPECT_GE(taken, 1u << 20);
    EXPECT_LE(taken, 4u << 20) << "half is the members'";

    std::vector<std::unique_ptr<Pair>> others;
    for (int i = 0; i < 40; ++i) {
        others.push_back(std::make_unique<Pair>(options));
        ASSERT_TRUE(send_unread(*others.back(), 0, window_bytes_start));
        EXPECT_FALSE(others.back()->accepted.back()->failure()) << "a window has always room";
    }
    options.is_needed = [] { return true; };
    options.memory->received_max = 32u << 20;
    Pair member(options);
    for (std::uint32_t i = 0; i < 16; ++i) ASSERT_TRUE(send_unread(member, i, window_bytes_start));
    for (const auto& stream : member.accepted) EXPECT_FALSE(stream->failure());
}

TEST(Yamux, unread_bytes_are_given_back_with_their_streams_and_sessions) {
    const YamuxOptions options = sharing(8u << 20);
    {
        Pair pair(options);
        for (std::uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(send_unread(pair, i, 1000));
        EXPECT_EQ(options.memory->received, 4000u);
        pair.accepted[0]->reset();
        pair.accepted[1]->release();
        EXPECT_EQ(read_all(*pair.accepted[2]).size(), 1000u);
        EXPECT_EQ(options.memory->received, 1000u);
    }
    EXPECT_EQ(options.memory->received, 0u);
}

TEST(Yamux, what_has_come_of_a_message_counts_until_it_is_complete) {
    const YamuxOptions options = sharing(2u << 20);
    Pair pair(options);
    auto [client, server] = pair.open();
    Bytes buffer(1u << 20);
    server->read_into(buffer);
    client->write(Bytes(300'000));
    pair.settle();
    EXPECT_EQ(options.memory->received, 300'000u);
    server->read_into({});
    EXPECT_EQ(options.memory->received, 0u);

    server->keep(400'000);
    server->keep(500'000);
    EXPECT_EQ(options.memory->received, 500'000u);
    server->keep(0);
    EXPECT_EQ(options.memory->received, 0u);
}

TEST(Yamux, messages_that_are_never_complete_are_bounded_together) {
    const YamuxOptions options = sharing(8u << 20);
    Pair pair(options);
    std::vector<Bytes> buffers;
    for (std::uint32_t i = 0; i < 64; ++i) {
        ASSERT_TRUE(send_unread(pair, i, 0));
        buffers.emplace_back(window_bytes_start);
        pair.accepted.back()->read_into(buffers.back());
        const YamuxHeader header{.type = YamuxType::data,
                                 .flags = 0,
                                 .stream_id = 2 * i + 1,
                                 .length = window_bytes_start - 1};
        ASSERT_TRUE(pair.server.feed(frame(header, Bytes(window_bytes_start - 1))));
    }
    ASSERT_TRUE(pair.accepted.back()->failure());
    EXPECT_EQ(pair.accepted.back()->failure()->kind(), ErrorKind::overloaded);
    EXPECT_FALSE(pair.accepted.front()->failure());
    EXPECT_LE(options.memory->received, 4u << 20);

    pair.accepted.front()->keep(16u << 20);
    EXPECT_TRUE(pair.accepted.front()->failure());
}

TEST(Yamux, answers_that_nobody_reads_are_bounded_for_all_sessions_of_a_host_together) {
    YamuxOptions options = sharing(64u << 20);
    std::vector<std::unique_ptr<Pair>> pairs;
    const auto ask_for = [&](std::size_t megabytes) {
        pairs.push_back(std::make_unique<Pair>(options));
        EXPECT_TRUE(send_unread(*pairs.back(), 0, 1));
        const auto stream = pairs.back()->accepted.back();
        for (std::size_t i = 0; i < megabytes; ++i) stream->write(Bytes(1u << 20));
        return stream;
    };
    for (int i = 0; i < 20; ++i) {
        const auto stream = ask_for(32);
        ASSERT_TRUE(stream->failure());
        EXPECT_EQ(stream->failure()->kind(), ErrorKind::overloaded);
        EXPECT_EQ(stream->queued_bytes(), 0u);
        (void)ask_for(i < 4 ? 4 : 0);
        EXPECT_LE(options.memory->queued, 32u << 20);
    }
    const std::size_t strangers = options.memory->queued;
    EXPECT_EQ(strangers, 16u << 20);
    options.is_needed = [] { return true; };
    EXPECT_FALSE(ask_for(20)->failure()) << "members have the other half";

    // Our own questions are not theirs to limit.
    auto question = *pairs.front()->client.open();
    question->write(Bytes(30u << 20));
    EXPECT_EQ(options.memory->queued, strangers + (20u << 20));
    pairs.back()->settle();
    EXPECT_LT(options.memory->queued, strangers + (20u << 20));
    pairs.clear();
    EXPECT_EQ(options.memory->queued, 0u);
}

TEST(Yamux, streams_that_were_reset_leave_the_queues_although_the_peer_takes_no_bytes) {
    Pair pair;
    std::vector<std::weak_ptr<YamuxStream>> opened;
    pair.server.on_inbound = [&](const std::shared_ptr<YamuxStream>& stream) {
        opened.push_back(stream);
        stream->write(to_bytes("an answer"));
        stream->on_readable = [raw = stream.get()] { read_all(*raw); };
    };
    for (std::uint32_t i = 0; i < 600; ++i) {
        ASSERT_TRUE(send_unread(pair, i, 200'000));  // so that its window is opened again
        const YamuxHeader reset{.type = YamuxType::window_update,
                                .flags = wire::yamux_rst,
                                .stream_id = 2 * i + 1,
                                .length = 0};
        ASSERT_TRUE(pair.server.feed(frame(reset)));
    }
    const auto alive =
        std::count_if(opened.begin(), opened.end(), [](const auto& one) { return !one.expired(); });
    EXPECT_LE(alive, 70);
    EXPECT_EQ(opened.size(), 600u);
}

// Many streams, random writes, reads, ends and fragmentation: everything that was sent before a
// proper end arrives, in order and once.
void torture(std::uint64_t seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Pair pair;
    struct Flow {
        std::shared_ptr<YamuxStream> from, to;
        Bytes sent, received;
        bool reset = false;
    };
    std::vector<Flow> flows;
    std::map<std::uint32_t, std::size_t> by_id;
    pair.server.on_inbound = [&](std::shared_ptr<YamuxStream> stream) {
        const std::size_t up = by_id.at(stream->id());
        flows[up].to = stream;
        flows[up + 1].from = stream;
    };
    const auto step = [&](bool fragments) {
        Pair::pull_all(pair.client, pair.to_server, 1 + random.below(200000));
        Pair::pull_all(pair.server, pair.to_client, 1 + random.below(200000));
        const auto move = [&](Bytes& pipe, YamuxSession& session) {
            const std::size_t count = fragments ? random.below(pipe.size() + 1) : pipe.size();
            ASSERT_TRUE(session.feed(ByteView(pipe).first(count)));
            pipe.erase(pipe.begin(), pipe.begin() + static_cast<std::ptrdiff_t>(count));
        };
        move(pair.to_server, pair.server);
        move(pair.to_client, pair.client);
        pair.now = pair.now + random.duration(0ms, 5ms);
        ASSERT_TRUE(pair.client.tick());
        ASSERT_TRUE(pair.server.tick());
    };
    const auto read = [&](Flow& flow, std::size_t bytes_max) {
        if (!flow.to) return;
        Bytes piece(std::min(bytes_max, flow.to->readable_bytes()));
        flow.to->read_some(piece);
        base::append(flow.received, piece);
    };
    for (int round = 0; round < 300; ++round) {
        if (flows.size() < 24 && random.chance(0.2)) {
            auto stream = *pair.client.open();
            by_id[stream->id()] = flows.size();
            flows.push_back({.from = stream, .to = nullptr, .sent = {}, .received = {}});
            flows.push_back({.from = nullptr, .to = stream, .sent = {}, .received = {}});
        }
        if (flows.empty()) continue;
        Flow& flow = flows[random.below(flows.size())];
        if (flow.from && !flow.from->finished() && !flow.from->failure()) {
            if (random.chance(0.02)) {
                flow.from->reset();
                flows[(&flow - flows.data()) ^ 1].reset = flow.reset = true;
            } else if (random.chance(0.05)) {
                flow.from->finish();
            } else {
                Bytes piece = random.bytes(random.below(random.chance(0.2) ? 400000 : 2000));
                base::append(flow.sent, piece);
                flow.from->write(std::move(piece));
            }
        }
        read(flows[random.below(flows.size())], random.below(300000));
        step(true);
        if (::testing::Test::HasFatalFailure()) return;
    }
    bool moving = true;
    while (moving) {
        moving = false;
        for (Flow& flow : flows) read(flow, SIZE_MAX);
        for (int i = 0; i < 50; ++i) step(false);
        for (Flow& flow : flows) moving = moving || (flow.to && flow.to->readable_bytes() > 0);
    }
    for (Flow& flow : flows) {
        ASSERT_LE(flow.received.size(), flow.sent.size());
        ASSERT_TRUE(base::equal(flow.received, ByteView(flow.sent).first(flow.received.size())));
        if (!flow.reset) {
            ASSERT_EQ(flow.received.size(), flow.sent.size());
        }
    }
}

TEST(Yamux, everything_arrives_in_order_whatever_the_fragmentation) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        torture(seed);
        if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace dedloc::transport
