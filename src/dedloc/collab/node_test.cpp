// Nodes and their services on real sockets of this machine.

#include "dedloc/collab/node.h"

#include <arpa/inet.h>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/collab/relay_service.h"
#include "dedloc/dht/node.h"
#include "dedloc/membership/hello_message.h"
#include "dedloc/membership/secret_authorizer.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/identity.h"
#include "dedloc/wire/message.h"

namespace dedloc::collab {
namespace {

// A node that takes part in a run.
struct Member {
    explicit Member(std::unique_ptr<Node> made)
        : node(std::move(made)), service(node->add<CollaborationService>(*node)) {}

    const PeerId& id() const { return node->id(); }
    runtime::Clock& clock() const { return node->clock(); }
    p2p::Host& host() const { return node->host(); }
    runtime::LineCaps caps() const { return node->caps(); }
    Collaboration& collaboration() const { return service.collaboration(); }
    Result<Invitation> invitation(const std::string& text, Duration timeout) const {
        return fetch_invitation(*node, text, timeout);
    }
    Result<void> begin(CollaborationOptions options,
                       events::EventSink* events,
                       const std::function<bool()>& goes_on = {}) {
        return service.begin(std::move(options), events, goes_on);
    }
    void leave(Duration grace_period) { service.leave(grace_period); }

    std::unique_ptr<Node> node;
    CollaborationService& service;
};

class NodeTest : public testing::Test {
  protected:
    NodeTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "dedloc-XXXXXX").string();
        directory_ = ::mkdtemp(pattern.data());
    }
    ~NodeTest() override { std::filesystem::remove_all(directory_); }

    Result<std::unique_ptr<Member>> open(const std::string& name, NodeOptions options = {}) {
        options.directory = directory_ / name;
        options.listen = {"/ip4/127.0.0.1/tcp/0"};
        DEDLOC_TRY(auto node, Node::open(options));
        return std::make_unique<Member>(std::move(node));
    }

    static run::Layout layout(std::size_t count = 16) {
        run::Layout layout;
        layout.parameters.push_back({.name = "p", .offset = 0, .count = count});
        layout.parameters_count = count;
        return layout;
    }

    // A host of a run of 16 numbers.
    std::unique_ptr<Member> hosting(const std::string& run_name, NodeOptions how = {}) {
        auto member = open("host of " + run_name, std::move(how));
        EXPECT_TRUE(member);
        CollaborationOptions options;
        options.run.name = run_name;
        options.layout = layout();
        options.secret = Bytes(run::run_secret_bytes, 7);
        options.initial =
            *replica::initial_state(options.run, options.layout, std::vector<float>(16, 1.0f), {});
        EXPECT_TRUE((*member)->begin(std::move(options), nullptr));
        return *std::move(member);
    }

    static std::string join_string(const Member& member) {
        return member.node->run_on_network_thread(
            [&member] { return member.collaboration().join_string(); });
    }

    std::filesystem::path directory_;
};

TEST_F(NodeTest, a_newcomer_gets_run_file_and_state_with_the_join_string_alone) {
    const auto host = hosting("one");
    auto guest = *open("guest");
    const auto invitation = guest->invitation(join_string(*host), 30s);
    ASSERT_TRUE(invitation) << to_string(invitation.error());
    EXPECT_EQ(invitation->run.name, "one");
    CollaborationOptions options;
    options.run = invitation->run;
    options.secret = invitation->secret;
    options.bootstrap = invitation->bootstrap;
    options.layout = layout();
    const auto begun = guest->begin(std::move(options), nullptr);
    ASSERT_TRUE(begun) << to_string(begun.error());
    const auto state = guest->collaboration().state();
    ASSERT_NE(state, nullptr);
    EXPECT_EQ(replica::parameters_of(*state)[15], 1.0f);
    guest->leave(1s);
    EXPECT_TRUE(guest->collaboration().stopped());
}

TEST_F(NodeTest, who_waits_for_a_state_can_look_meanwhile_and_end_it) {
    auto guest = *open("guest");
    CollaborationOptions options;
    options.run.name = "nobody is there";
    options.layout = layout();
    options.secret = Bytes(run::run_secret_bytes, 7);
    options.bootstrap = {"/ip4/127.0.0.1/tcp/9/p2p/" + guest->id().text()};
    int looks = 0;
    const auto begun = guest->begin(std::move(options), nullptr, [&] {
        const auto peers =
            guest->node->run_on_network_thread([&] { return guest->collaboration().peers(); });
        EXPECT_EQ(peers.size(), 1u);
        EXPECT_EQ(peers.front().phase, membership::Phase::starting);
        return ++looks < 2;
    });
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().kind(), ErrorKind::cancelled);
    EXPECT_EQ(looks, 2);
}

TEST_F(NodeTest, who_joins_with_a_model_of_another_size_is_told_and_does_not_load_for_ever) {
    const auto host = hosting("one");
    auto guest = *open("guest");
    const auto invitation = guest->invitation(join_string(*host), 30s);
    ASSERT_TRUE(invitation) << to_string(invitation.error());
    for (const std::size_t count : {32u, 8u}) {
        guest.reset();
        guest = *open("guest");
        CollaborationOptions options;
        options.run = invitation->run;
        options.secret = invitation->secret;
        options.bootstrap = invitation->bootstrap;
        options.layout = layout(count);
        const TimePoint until = guest->clock().now() + 5s;
        const auto in_time = [&] { return guest->clock().now() < until; };
        const auto begun = guest->begin(std::move(options), nullptr, in_time);
        ASSERT_FALSE(begun);
        EXPECT_EQ(begun.error().kind(), ErrorKind::bad_input);
        for (const char* word : {"'parameters'", "built differently"})
            EXPECT_NE(begun.error().message().find(word), std::string::npos)
                << begun.error().message();
    }
}

Task<Result<void>> until_cap(const Node& node, double up) {
    const TimePoint deadline = node.clock().now() + 20s;
    while (node.caps().up != up && node.clock().now() < deadline)
        co_await node.clock().sleep_for(20ms);
    EXPECT_EQ(node.caps().up, up);
    co_return Result<void>();
}

TEST_F(NodeTest, caps_follow_the_clock_and_plans_count_on_a_little_less) {
    std::atomic<double> up = 1e6;
    NodeOptions how;
    how.caps = [&up](WallSeconds) { return runtime::LineCaps{.up = up, .down = 0}; };
    const auto host = hosting("one", std::move(how));
    const auto planned = [&host] {
        return host->node->run_on_network_thread(
            [&host] { return host->collaboration().status().upload_bytes_per_s; });
    };
    EXPECT_EQ(planned(), 1e6 * planned_share_of_cap);
    up = 2e6;
    EXPECT_TRUE(host->node->call("wait", until_cap(*host->node, 2e6)));
    EXPECT_EQ(planned(), 2e6 * planned_share_of_cap);
    up = 0;
    EXPECT_TRUE(host->node->call("wait", until_cap(*host->node, 0)));
    EXPECT_EQ(planned(), 0) << "nothing was measured";
}

TEST_F(NodeTest, without_caps_there_is_no_limit) {
    const auto host = hosting("one");
    EXPECT_EQ(host->node->run_on_network_thread([&host] { return host->caps(); }),
              runtime::LineCaps{});
}

TEST_F(NodeTest, a_wrong_secret_is_denied) {
    const auto host = hosting("one");
    auto guest = *open("guest");
    auto invitation = guest->invitation(join_string(*host), 30s);
    ASSERT_TRUE(invitation);
    CollaborationOptions options;
    options.run = invitation->run;
    options.secret = Bytes(run::run_secret_bytes, 8);
    options.bootstrap = invitation->bootstrap;
    options.layout = layout();
    options.join_timeout = 5s;
    const auto begun = guest->begin(std::move(options), nullptr);
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().kind(), ErrorKind::denied);
}

TEST_F(NodeTest, a_join_string_for_another_run_is_a_conflict) {
    const auto host = hosting("one");
    auto join = run::parse_join_string(join_string(*host));
    ASSERT_TRUE(join);
    join->run.bytes[0] ^= 1;
    auto guest = *open("guest");
    const auto invitation = guest->invitation(to_text(*join), 10s);
    ASSERT_FALSE(invitation);
    EXPECT_EQ(invitation.error().kind(), ErrorKind::conflict);
    EXPECT_NE(invitation.error().message().find("fresh join string"), std::string::npos)
        << invitation.error().message();
}

// A peer that knows the secret, and tells of its run what it likes.
class Teller {
  public:
    Teller(p2p::Host& host, Bytes secret) : secret_(std::move(secret)) {
        host.handle_call(membership::hello_method, [this, &host](PeerId from, Bytes bytes) {
            return hello(host.id(), std::move(from), std::move(bytes));
        });
        host.handle_call(membership::prove_method, [this](PeerId, Bytes) { return run_file(); });
    }
    membership::HelloMessage told;

  private:
    Task<Result<Bytes>> hello(PeerId me, PeerId from, Bytes bytes) {
        const auto request = wire::decode<membership::HelloMessage>(bytes);
        membership::HelloMessage reply;
        reply.nonce = Bytes(membership::hello_nonce_bytes, 5);
        reply.proof =
            membership::SecretAuthorizer(secret_).credential({.caller = from,
                                                              .callee = me,
                                                              .nonce_caller = request->nonce,
                                                              .nonce_callee = reply.nonce},
                                                             membership::Side::callee);
        co_return wire::encode(reply);
    }
    Task<Result<Bytes>> run_file() { co_return wire::encode(told); }

    Bytes secret_;
};

Task<Result<Bytes>> ask_a_host(p2p::Host* host,
                               std::string address,
                               std::string method,
                               Bytes request) {
    const TimePoint deadline = host->clock().now() + 10s;
    auto peer = co_await host->dial(address, deadline);
    if (!peer) co_return std::move(peer).error();
    const PeerId id = *peer;
    auto answer = co_await host->call(id, std::move(method), std::move(request), deadline);
    co_return answer;
}

TEST_F(NodeTest, a_stranger_learns_nothing_of_the_run) {
    const auto host = hosting("one");
    const auto stranger = *open("stranger");
    const auto join = run::parse_join_string(join_string(*host));
    ASSERT_TRUE(join);
    const auto ask = [&](std::string method, Bytes request) {
        return stranger->node->call(
            "ask",
            ask_a_host(
                &stranger->host(), join->addresses.front(), std::move(method), std::move(request)));
    };
    membership::HelloMessage hello;
    EXPECT_FALSE(ask(membership::hello_method, wire::encode(hello)));
    hello.nonce = Bytes(membership::hello_nonce_bytes, 1);
    hello.wants_run_file = 1;
    const auto answer = ask(membership::hello_method, wire::encode(hello));
    ASSERT_TRUE(answer) << answer.error().message();
    const auto reply = wire::decode<membership::HelloMessage>(*answer);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->run, Digest{});
    EXPECT_TRUE(reply->run_file.empty());
    EXPECT_TRUE(reply->statuses.empty());
    hello.nonce = reply->nonce;
    hello.proof = reply->proof;  // what the host proved is no proof of ours
    const auto denied = ask(membership::prove_method, wire::encode(hello));
    ASSERT_FALSE(denied);
    EXPECT_EQ(denied.error().kind(), ErrorKind::denied);
    EXPECT_FALSE(ask(membership::run_file_method, Bytes()));
}

// To either side the other one was reached, and no join string helps.
TEST_F(NodeTest, a_host_of_another_version_of_dedloc_is_told_from_one_of_another_run) {
    std::unique_ptr<Teller> teller;
    const auto peer = *open("peer");
    const auto guest = *open("guest");
    run::JoinString join;
    join.secret = Bytes(run::run_secret_bytes, 7);
    join.addresses = peer->node->run_on_network_thread([&] {
        teller = std::make_unique<Teller>(peer->host(), join.secret);
        return std::vector<std::string>{peer->host().addresses().front() + "/p2p/" +
                                        peer->id().text()};
    });
    run::RunFile run;
    run.name = "one";
    const std::string ours = run::to_toml(run);
    const std::string line = "leave_out_slow = true\n";
    const std::size_t at = ours.find(line);
    ASSERT_NE(at, std::string::npos);
    std::string newer = ours;
    newer.insert(at, "invented_later = 1\n");
    std::string older = ours;
    older.erase(at, line.size());
    std::string newest = newer;
    newest.replace(0, newest.find('\n'), "format = 999");
    using Told = std::pair<std::string, const char*>;
    for (const auto& [text, why] : {Told{newer, "'averaging.invented_later'"},
                                    Told{older, "writes the same run differently"},
                                    Told{newest, "'format' is 999 in this file"}}) {
        join.run = security::sha256(as_bytes(text));
        peer->node->run_on_network_thread([&, run_file = text] {
            teller->told.run = join.run;
            teller->told.run_file = run_file;
        });
        const auto invitation = guest->invitation(to_text(join), 10s);
        ASSERT_FALSE(invitation);
        const Error& error = invitation.error();
        EXPECT_EQ(error.kind(), ErrorKind::conflict) << error.message();
        for (const char* word : {why, "answers, but", "another version of dedloc"})
            EXPECT_NE(error.message().find(word), std::string::npos) << error.message();
        for (const char* word : {"fresh join string", "can this machine reach it"})
            EXPECT_EQ(error.message().find(word), std::string::npos) << error.message();
    }
}

// The first peer of the string may be a machine that is switched off: nothing comes back.
TEST_F(NodeTest, an_old_join_string_works_while_one_of_its_peers_lives) {
    const auto host = hosting("one");
    auto join = run::parse_join_string(join_string(*host));
    ASSERT_TRUE(join);
    // The kernel takes connections, and nobody says anything.
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener, 64), 0);
    socklen_t size = sizeof address;
    ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    std::vector<std::string> addresses;
    for (int i = 0; i < 7; ++i)
        addresses.push_back(fmt::format("/ip4/127.0.0.1/tcp/{}/p2p/{}",
                                        ntohs(address.sin_port),
                                        security::Identity::generate().id().text()));
    for (const std::string& own : join->addresses) addresses.push_back(own);
    join->addresses = addresses;
    auto guest = *open("guest");
    const TimePoint begun = guest->clock().now();
    const auto invitation = guest->invitation(to_text(*join), 30s);
    ASSERT_TRUE(invitation) << to_string(invitation.error());
    CollaborationOptions options;
    options.run = invitation->run;
    options.secret = invitation->secret;
    options.bootstrap = invitation->bootstrap;
    options.layout = layout();
    EXPECT_TRUE(guest->begin(std::move(options), nullptr));
    EXPECT_LT(guest->clock().now() - begun, 15s) << "each silent one would take five seconds";
    guest->leave(1s);
    ::close(listener);
}

TEST_F(NodeTest, a_run_without_live_peers_is_named_by_its_addresses) {
    std::string text;
    {
        const auto host = hosting("one");
        text = join_string(*host);
    }
    auto guest = *open("guest");
    const auto invitation = guest->invitation(text, 10s);
    ASSERT_FALSE(invitation);
    EXPECT_NE(invitation.error().message().find("127.0.0.1"), std::string::npos)
        << invitation.error().message();
}

TEST_F(NodeTest, garbled_join_strings_are_bad_input) {
    auto guest = *open("guest");
    const auto invitation = guest->invitation("dedloc1garbage", 1s);
    ASSERT_FALSE(invitation);
    EXPECT_EQ(invitation.error().kind(), ErrorKind::bad_input);
}

TEST_F(NodeTest, two_nodes_cannot_be_the_same_peer) {
    const auto first = *open("peer");
    const auto second = open("peer");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind(), ErrorKind::conflict);
}

TEST_F(NodeTest, a_port_in_use_is_said) {
    const auto first = *open("first");
    const std::string address =
        first->node->run_on_network_thread([&first] { return first->host().addresses().front(); });
    NodeOptions options;
    options.directory = directory_ / "second";
    options.listen = {address};
    const auto second = Node::open(options);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind(), ErrorKind::local_fault);
}

TEST_F(NodeTest, a_node_runs_several_services_and_its_role_follows_from_them) {
    const auto host = hosting("one");
    auto relay = *open("relay");
    EXPECT_EQ(relay->node->roles(), std::vector<membership::Role>{membership::Role::observer});
    const auto& carries = relay->node->add<RelayService>(*relay->node);
    EXPECT_EQ(carries.counters().circuits, 0u);
    const auto invitation = relay->invitation(join_string(*host), 30s);
    ASSERT_TRUE(invitation) << to_string(invitation.error());
    CollaborationOptions options;
    options.run = invitation->run;
    options.secret = invitation->secret;
    options.bootstrap = invitation->bootstrap;
    options.role = membership::Role::observer;
    ASSERT_TRUE(relay->begin(std::move(options), nullptr));
    const auto told = [&] {
        return relay->node->run_on_network_thread(
            [&] { return relay->collaboration().status().role; });
    };
    EXPECT_EQ(told(), membership::Role::relay);
    EXPECT_EQ(relay->node->roles(),
              (std::vector<membership::Role>{membership::Role::relay, membership::Role::relay}));
    relay->leave(1s);
}

Task<Result<void>> put_in_dht(dht::DhtNode& dht,
                              Bytes value,
                              TimePoint deadline,
                              WallSeconds expiration) {
    dht::DhtItem item{.key = dht::DhtId::of_text("key"),
                      .subkey = {},
                      .value = std::move(value),
                      .expiration = expiration};
    auto stored = co_await dht.store(std::move(item), deadline);
    if (!stored) co_return std::move(stored).error();
    co_return Result<void>();
}

Task<Result<void>> meet_in_dht(dht::DhtNode& dht,
                               p2p::Host& host,
                               std::string address,
                               TimePoint deadline) {
    auto peer = co_await host.dial(address, deadline);
    if (!peer) co_return std::move(peer).error();
    std::vector<PeerId> peers(1, *peer);
    auto met = co_await dht.bootstrap(std::move(peers), deadline);
    if (!met) co_return std::move(met).error();
    co_return Result<void>();
}

Task<Result<Bytes>> get_from_dht(dht::DhtNode& dht, TimePoint deadline) {
    const dht::DhtId key = dht::DhtId::of_text("key");
    auto found = co_await dht.get(key, dht::Freshness::latest, deadline);
    if (!found) co_return std::move(found).error();
    if (!*found || !(*found)->regular)
        co_return make_error(ErrorKind::not_found, "nothing is there");
    co_return (*found)->regular->value;
}

TEST_F(NodeTest, a_node_takes_part_in_the_distributed_hash_table_if_it_is_told_to) {
    const auto without = *open("without");
    EXPECT_EQ(without->node->run_on_network_thread([&] { return without->node->dht(); }), nullptr);
    NodeOptions how;
    how.dht = dht::DhtOptions{};
    const auto first = *open("first", how);
    const auto second = *open("second", how);
    const std::string address = first->node->run_on_network_thread(
        [&] { return first->host().addresses().front() + "/p2p/" + first->id().text(); });
    const TimePoint deadline = second->clock().now() + 10s;
    ASSERT_TRUE(second->node->call(
        "meet", meet_in_dht(*second->node->dht(), second->host(), address, deadline)));
    const Bytes value = {0x05};  // MessagePack: five
    ASSERT_TRUE(second->node->call(
        "put", put_in_dht(*second->node->dht(), value, deadline, second->clock().wall_now() + 60)));
    const auto found = first->node->call("get", get_from_dht(*first->node->dht(), deadline));
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(*found, value);
}

}  // namespace
}  // namespace dedloc::collab
