// A host seen by a peer that speaks plain libp2p, byte by byte: what go, rust and js peers rely on.
#include <algorithm>
#include <gtest/gtest.h>

#include "dedloc/p2p/connection.h"
#include "dedloc/p2p/host_testing.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/p2p/protocols.h"
#include "dedloc/p2p/rpc.h"
#include "dedloc/sim/world.h"
#include "dedloc/transport/upgrade.h"
#include "dedloc/wire/kad_messages.h"
#include "dedloc/wire/multistream.h"

namespace dedloc::p2p {
namespace {

// Our host on one machine, and a bare connection to it from another.
class ForeignPeer : public ::testing::Test {
  protected:
    void SetUp() override {
        sim::SimNode& machine = world_.add_node({});
        stranger_ = &world_.add_node({});
        HostOptions options = simulated_host(world_, machine, 1);
        host_ = make_host(std::move(options)).value();
        host_->handle_call("echo", echo);
        world_.run_task(connect());
    }
    void TearDown() override {
        if (connection_) connection_->close(Error(ErrorKind::cancelled, "the test is over"));
        world_.run_task(host_->stop());
        world_.run_task(scope_.stop());
        connection_.reset();
        host_.reset();
    }

    Task<void> connect() {
        const auto text = host_->addresses().at(0);
        const auto address = wire::Multiaddr::from_text(text).value();
        runtime::SocketAddress socket{.host = *address.host(), .port = *address.tcp_port()};
        auto raw = co_await stranger_->network().connect(socket, TimePoint::never());
        auto context = transport::UpgradeContext::make(identity_).value();
        auto secured = co_await transport::upgrade_dialled(
            *std::move(raw), std::move(context), host_->id(), stranger_->clock());
        PeerConnection::Settings settings{
            .executor = world_.executor(),
            .clock = stranger_->clock(),
            .memory = nullptr,
            .keep_alive_interval = transport::keep_alive_interval,
            .keep_alive_answer_max = transport::keep_alive_answer_max};
        connection_ = std::make_shared<PeerConnection>(*std::move(secured), std::move(settings));
        connection_->start(scope_);
    }
    Task<std::unique_ptr<transport::Stream>> open() {
        const TimePoint deadline = stranger_->clock().now() + 10s;
        auto stream = co_await connection_->open_stream(deadline);
        (*stream)->set_deadline(deadline);
        co_return *std::move(stream);
    }
    static Bytes lines(std::initializer_list<std::string_view> texts) {
        Bytes out;
        for (const auto text : texts) wire::put_multistream_line(out, text);
        return out;
    }
    static Task<void> expect(transport::Stream* stream, Bytes wanted) {
        Bytes got(wanted.size());
        auto filled = co_await stream->read_exactly(got);
        EXPECT_TRUE(filled && *filled);
        EXPECT_EQ(base::to_hex(got), base::to_hex(wanted));
    }

    sim::World world_{3};
    sim::SimNode* stranger_ = nullptr;
    security::Identity identity_ = security::Identity::from_seed(Bytes(32, 2)).value();
    runtime::Scope scope_{world_.executor()};
    std::unique_ptr<Host> host_;
    std::shared_ptr<PeerConnection> connection_;

    Task<void> ping() {
        auto stream = co_await open();
        Bytes opening = lines({"/multistream/1.0.0", "/ipfs/ping/1.0.0"});
        stream->write(opening);
        co_await expect(stream.get(), opening);
        for (std::uint8_t round = 0; round < 3; ++round) {
            Bytes payload(32, round);
            stream->write(payload);
            co_await expect(stream.get(), payload);
        }
        stream->finish();
        Bytes byte(1);
        auto end = co_await stream->read_exactly(byte);
        EXPECT_TRUE(end && !*end);
    }

    // While it has a stream under way there.
    Task<void> stay_on_the_older_connection() {
        auto stream = co_await open();
        Bytes opening = lines({"/multistream/1.0.0", "/ipfs/ping/1.0.0"});
        stream->write(opening);
        co_await expect(stream.get(), opening);
        const std::shared_ptr<PeerConnection> older = connection_;
        co_await connect();
        runtime::Clock& clock = stranger_->clock();
        for (std::uint8_t round = 0; round < 12; ++round) {
            Bytes payload(32, round);
            stream->write(payload);
            co_await expect(stream.get(), payload);
            EXPECT_FALSE(older->session().go_away_was_received());
            co_await clock.sleep_for(drain_idle / 4);
        }
        stream->finish();
        stream.reset();
        co_await clock.sleep_for(2 * drain_idle);
        EXPECT_TRUE(older->is_closed());
        EXPECT_FALSE(connection_->is_closed());
    }

    Task<void> second_proposal() {
        auto stream = co_await open();
        Bytes opening = lines({"/multistream/1.0.0", "/no/such/protocol"});
        stream->write(std::move(opening));
        Bytes refusal = lines({"/multistream/1.0.0", "na"});
        co_await expect(stream.get(), std::move(refusal));
        Bytes second = lines({"echo"});
        stream->write(second);
        co_await expect(stream.get(), second);
        wire::CallId id{};
        id[3] = 9;
        const Bytes data = to_bytes("after a refusal");
        stream->write(wire::encode_unary_request(id, "echo", data));
        auto envelope = co_await stream->read_prefixed(4096);
        EXPECT_TRUE(envelope && *envelope);
        if (!envelope || !*envelope) co_return;
        const auto answer = wire::decode_unary_response(**envelope);
        EXPECT_TRUE(answer && answer->id == id && answer->response == data);
    }

    Task<void> identify() {
        const TimePoint deadline = stranger_->clock().now() + 10s;
        auto answer = co_await ask_identify(connection_, deadline);
        EXPECT_TRUE(answer);
        if (!answer) co_return;
        EXPECT_EQ(security::peer_id_of(answer->public_key), host_->id());
        EXPECT_TRUE(answer->agent_version.starts_with("dedloc/"));
        const auto observed = wire::Multiaddr::from_bytes(answer->observed_address);
        EXPECT_TRUE(observed && *observed->host() == stranger_->ip());
        EXPECT_EQ(answer->listen_addresses.size(), host_->addresses().size());
        const auto& protocols = answer->protocols;
        EXPECT_EQ(std::count(protocols.begin(), protocols.end(), "echo"), 1);
    }

    static Bytes find_node(ByteView key, wire::KadType type = wire::KadType::find_node) {
        wire::KadMessage request;
        request.type = type;
        request.key = to_bytes(key);
        return wire::with_length_prefix(wire::encode(request));
    }

    // Several requests on one stream, as Go asks; its first one before it lets us into its table.
    Task<void> find_us_and_others() {
        auto stream = co_await open();
        Bytes opening = lines({"/multistream/1.0.0", "/ipfs/kad/1.0.0"});
        stream->write(opening);
        co_await expect(stream.get(), opening);
        for (int round = 0; round < 3; ++round) {
            stream->write(find_node(host_->id().bytes()));
            auto message = co_await stream->read_prefixed(4096);
            EXPECT_TRUE(message && *message);
            if (!message || !*message) co_return;
            const auto answer = wire::decode<wire::KadMessage>(**message);
            EXPECT_TRUE(answer && answer->type == wire::KadType::find_node);
            EXPECT_EQ(answer->closer_peers.size(), 1u);
            EXPECT_EQ(answer->closer_peers.at(0).id, to_bytes(host_->id().bytes()));
            EXPECT_EQ(answer->closer_peers.at(0).addresses.size(), host_->addresses().size());
        }
        stream->finish();
        Bytes byte(1);
        auto end = co_await stream->read_exactly(byte);
        EXPECT_TRUE(end && !*end);
    }

    // A request that is no question of ours ends the stream, and nothing more.
    Task<void> ask_nonsense() {
        const Bytes key(40, 1);
        const std::vector<Bytes> questions = {find_node(key, wire::KadType::put_value),
                                              find_node(key, static_cast<wire::KadType>(77)),
                                              Bytes(5, 0x04),
                                              wire::with_length_prefix(Bytes(5000, 1))};
        for (const Bytes& question : questions) {
            const TimePoint begun = stranger_->clock().now();
            auto stream = co_await open();
            Bytes opening = lines({"/multistream/1.0.0", "/ipfs/kad/1.0.0"});
            stream->write(opening);
            stream->write(question);
            // The echo at most, then the stream fails or ends, long before the stranger gives up.
            Bytes answer(opening.size() + 1);
            auto filled = co_await stream->read_exactly(answer);
            EXPECT_FALSE(filled && *filled);
            EXPECT_LT(stranger_->clock().now() - begun, 2s);
        }
        co_await ping();
    }

    // Calls that are begun and given up, many times over.
    Task<void> give_up_many() {
        for (int i = 0; i < 3000; ++i) {
            auto stream = co_await open();
            Bytes opening = lines({"/multistream/1.0.0", "echo"});
            stream->write(std::move(opening));
            if (i % 3 == 0) stream->write(Bytes(1, 200));
            if (i % 2 == 0) {
                auto sent = co_await stream->sent();
                (void)sent;
            }
        }
    }
};

TEST_F(ForeignPeer, pings) { world_.run_task(ping()); }

TEST_F(ForeignPeer, goes_on_with_its_streams_on_the_one_of_two_connections_that_we_give_up) {
    world_.run_task(stay_on_the_older_connection());
}

TEST_F(ForeignPeer, may_propose_again_after_a_refusal) { world_.run_task(second_proposal()); }

TEST_F(ForeignPeer, learns_who_we_are) { world_.run_task(identify()); }

TEST_F(ForeignPeer, is_told_where_we_are) { world_.run_task(find_us_and_others()); }

TEST_F(ForeignPeer, that_asks_nonsense_of_our_peers_gets_no_answer) {
    world_.run_task(ask_nonsense());
}

TEST_F(ForeignPeer, that_gives_up_thousands_of_calls_leaves_nothing_behind) {
    world_.run_task(give_up_many());
    world_.run_for(5s);
    EXPECT_EQ(connection_->session().streams_count(), 0u);
    world_.run_task(ping());
}

}  // namespace
}  // namespace dedloc::p2p
