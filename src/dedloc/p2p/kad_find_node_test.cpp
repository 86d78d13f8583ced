// Hosts that know each other only by id, and strangers that ask and answer FIND_NODE.
#include "dedloc/p2p/kad_find_node.h"

#include <gtest/gtest.h>

#include "dedloc/p2p/diagnostics.h"
#include "dedloc/p2p/host_testing.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/sim/world.h"

namespace dedloc::p2p {
namespace {

class FindNode : public ::testing::Test {
  protected:
    void TearDown() override {
        for (const auto& host : hosts_) world_.run_task(host->stop());
        hosts_.clear();
    }

    Host& add(bool listens = true) {
        sim::SimNode& node = world_.add_node({});
        nodes_.push_back(&node);
        const auto seed = static_cast<std::uint8_t>(nodes_.size());
        HostOptions options = simulated_host(world_, node, seed);
        if (!listens) options.listen.clear();
        hosts_.push_back(make_host(std::move(options)).value());
        hosts_.back()->handle_call("echo", echo);
        return *hosts_.back();
    }
    static Task<void> connect_to(Host* from, Host* to, Result<void>* out) {
        from->add_addresses(to->id(), to->addresses());
        const TimePoint deadline = from->clock().now() + 10s;
        *out = co_await from->connect(to->id(), deadline);
    }
    void connect(Host& from, Host& to) {
        Result<void> connected = Error(ErrorKind::cancelled, "did not run");
        world_.run_task(connect_to(&from, &to, &connected));
        ASSERT_TRUE(connected) << connected.error().message();
        world_.run_for(1s);  // identify tells what the other speaks
    }
    static Task<void> call_it(Host* from, PeerId to, Duration timeout, Result<Bytes>* out) {
        const TimePoint deadline = from->clock().now() + timeout;
        const Bytes request = to_bytes("hello");
        *out = co_await from->call(to, "echo", request, deadline);
    }
    Result<Bytes> call(Host& from, const PeerId& to, Duration timeout = 10s) {
        Result<Bytes> answer = Error(ErrorKind::cancelled, "did not run");
        world_.run_task(call_it(&from, to, timeout, &answer));
        return answer;
    }
    static Task<void> find_it(Host* from, PeerId who, Result<std::vector<std::string>>* out) {
        const TimePoint deadline = from->clock().now() + 10s;
        *out = co_await view_of(*from)->find_peer(who, deadline);
    }
    Result<std::vector<std::string>> find(Host& from, const PeerId& who) {
        Result<std::vector<std::string>> found = Error(ErrorKind::cancelled, "did not run");
        world_.run_task(find_it(&from, who, &found));
        return found;
    }
    static PeerId nobody(std::uint8_t seed) {
        return security::Identity::from_seed(Bytes(32, seed)).value().id();
    }

    sim::World world_{11};
    std::vector<sim::SimNode*> nodes_;
    std::vector<std::unique_ptr<Host>> hosts_;
};

TEST_F(FindNode, a_peer_known_only_by_id_is_found_and_called) {
    Host& middle = add();
    Host& one = add();
    Host& other = add();
    connect(one, middle);
    connect(other, middle);
    ASSERT_TRUE(one.addresses_of(other.id()).empty());
    const auto answer = call(one, other.id());
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_EQ(*answer, to_bytes("hello"));
    EXPECT_EQ(one.addresses_of(other.id()), other.addresses());
}

TEST_F(FindNode, a_search_goes_from_peer_to_peer) {
    std::vector<Host*> chain;
    for (int i = 0; i < 6; ++i) {
        chain.push_back(&add());
        if (i > 0)
            connect(*chain[static_cast<std::size_t>(i)], *chain[static_cast<std::size_t>(i) - 1]);
    }
    const auto found = find(*chain.front(), chain.back()->id());
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(*found, chain.back()->addresses());
}

TEST_F(FindNode, who_asks_for_a_peer_that_nobody_knows_learns_that_and_does_not_ask_at_once_again) {
    Host& middle = add();
    Host& one = add();
    connect(one, middle);
    const auto found = find(one, nobody(99));
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().kind(), ErrorKind::not_found);
    const TimePoint begun = one.clock().now();
    const auto again = call(one, nobody(99));
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().kind(), ErrorKind::peer_gone);
    EXPECT_EQ(one.clock().now(), begun);  // no round trip was spent
    // Later it may be there.
    world_.run_for(kad_missed_pause);
    Host& late = add();
    connect(late, middle);
    EXPECT_TRUE(find(one, late.id()));
}

TEST_F(FindNode, a_peer_that_nobody_can_dial_does_not_offer_it) {
    Host& server = add();
    Host& client = add(/*listens=*/false);
    connect(client, server);
    const auto of_server = view_of(client)->facts_of(server.id());
    const auto of_client = view_of(server)->facts_of(client.id());
    ASSERT_TRUE(of_server && of_client);
    const std::string kad(wire::kad_protocol);
    const auto offers = [&](const PeerFacts& facts) {
        return std::find(facts.protocols.begin(), facts.protocols.end(), kad) !=
               facts.protocols.end();
    };
    EXPECT_TRUE(offers(*of_server));
    EXPECT_FALSE(offers(*of_client));
    EXPECT_EQ(of_server->security, security::tls_protocol);
    EXPECT_TRUE(of_server->we_dialled);
    EXPECT_FALSE(of_client->we_dialled);
}

Task<void> ping_it(Host* from, PeerId to, Result<Duration>* out) {
    const TimePoint deadline = from->clock().now() + 10s;
    *out = co_await view_of(*from)->ping(to, deadline);
}

TEST_F(FindNode, a_ping_takes_a_round_trip) {
    Host& one = add();
    Host& other = add();
    connect(one, other);
    Result<Duration> took = Error(ErrorKind::cancelled, "did not run");
    world_.run_task(ping_it(&one, other.id(), &took));
    ASSERT_TRUE(took) << took.error().message();
    EXPECT_GT(*took, Duration(0));
    EXPECT_LT(*took, 1s);
}

// ------------------------------------------------------------------------ answers, one by one

// A swarm that is connected to nobody, and knows many.
class Answers : public ::testing::Test {
  protected:
    Answers()
        : node_(world_.add_node({})),
          identity_(security::Identity::from_seed(Bytes(32, 1)).value()),
          swarm_(options(), scope_),
          finder_(swarm_, identity_.id(), own_addresses, node_.clock()) {}
    ~Answers() override { world_.run_task(scope_.stop()); }

    Swarm::Options options() {
        Swarm::Options made{.executor = world_.executor(),
                            .clock = node_.clock(),
                            .network = node_.network(),
                            .identity = identity_,
                            .upgrades = transport::UpgradeContext::make(identity_).value(),
                            .keep_alive_interval = transport::keep_alive_interval,
                            .keep_alive_answer_max = transport::keep_alive_answer_max};
        return made;
    }
    static std::vector<wire::Multiaddr> own_addresses() {
        return {wire::Multiaddr::from_text("/ip4/10.0.0.1/tcp/1").value()};
    }
    static PeerId peer(int number) {
        Bytes seed(32, 7);
        seed[0] = static_cast<std::uint8_t>(number);
        seed[1] = static_cast<std::uint8_t>(number >> 8);
        return security::Identity::from_seed(seed).value().id();
    }
    void know(const PeerId& who, const std::string& address) {
        const auto parsed = wire::Multiaddr::from_text(address).value();
        swarm_.dialler().addresses().add(who, std::vector<wire::Multiaddr>(1, parsed));
    }
    wire::KadMessage ask(ByteView key) {
        wire::KadMessage request;
        request.type = wire::KadType::find_node;
        request.key = to_bytes(key);
        return finder_.answer(request, peer(0));
    }

    sim::World world_{12};
    sim::SimNode& node_;
    runtime::Scope scope_{world_.executor()};
    security::Identity identity_;
    Swarm swarm_;
    PeerFinder finder_;
};

TEST_F(Answers, who_asks_for_us_gets_us_and_our_addresses) {
    know(peer(1), "/ip4/10.0.0.2/tcp/2");
    const auto answer = ask(identity_.id().bytes());
    ASSERT_EQ(answer.closer_peers.size(), 1u);
    EXPECT_EQ(answer.closer_peers[0].id, to_bytes(identity_.id().bytes()));
    ASSERT_EQ(answer.closer_peers[0].addresses.size(), 1u);
    EXPECT_EQ(answer.closer_peers[0].addresses[0], own_addresses()[0].bytes());
}

TEST_F(Answers, the_target_comes_first_then_the_nearest_and_never_more_than_twenty) {
    for (int i = 0; i < 100; ++i) know(peer(i), "/ip4/10.0.1.1/tcp/" + std::to_string(i + 1));
    const PeerId target = peer(50);
    const auto answer = ask(target.bytes());
    ASSERT_EQ(answer.closer_peers.size(), wire::kad_closer_peers_max);
    EXPECT_EQ(answer.closer_peers[0].id, to_bytes(target.bytes()));
    // Nobody who was left out is nearer than anybody who was named; who asks is not told of itself.
    const Digest key = security::sha256(target.bytes());
    const auto away = [&](ByteView id) {
        Digest result = security::sha256(id);
        for (std::size_t i = 0; i < 32; ++i) result.bytes[i] ^= key.bytes[i];
        return result;
    };
    std::set<Bytes> named;
    Digest farthest;
    for (const auto& entry : answer.closer_peers) {
        EXPECT_TRUE(named.insert(entry.id).second);
        farthest = std::max(farthest, away(entry.id));
    }
    EXPECT_FALSE(named.contains(to_bytes(peer(0).bytes())));
    for (int i = 1; i < 100; ++i) {
        const bool is_named = named.contains(to_bytes(peer(i).bytes()));
        EXPECT_TRUE(is_named || away(peer(i).bytes()) > farthest) << i;
    }
}

TEST_F(Answers, keys_that_are_no_ids_are_answered_and_pings_come_back) {
    know(peer(1), "/ip4/10.0.0.2/tcp/2");
    EXPECT_EQ(ask(as_bytes("no peer at all")).closer_peers.size(), 1u);
    EXPECT_EQ(ask({}).closer_peers.size(), 1u);
    wire::KadMessage ping;
    ping.type = wire::KadType::ping;
    EXPECT_EQ(finder_.answer(ping, peer(0)).type, wire::KadType::ping);
    EXPECT_TRUE(finder_.answer(ping, peer(0)).closer_peers.empty());
}

}  // namespace
}  // namespace dedloc::p2p
