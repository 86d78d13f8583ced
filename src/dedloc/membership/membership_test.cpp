// Members and strangers at a peer's door, without a model behind it.

#include "dedloc/membership/membership.h"

#include <functional>
#include <gtest/gtest.h>
#include <limits>

#include "dedloc/base/fields.h"
#include "dedloc/membership/secret_authorizer.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/message.h"

namespace dedloc::membership {
namespace {

run::RunFile run_at_the_door() {
    run::RunFile run;
    run.name = "door";
    return run;
}

struct DoorPeer {
    explicit DoorPeer(sim::SimNode& on)
        : node(on),
          membership(node.runtime(),
                     node.host(),
                     node.signer(),
                     verifier,
                     run_at_the_door(),
                     std::make_unique<SecretAuthorizer>(Bytes(16, 7)),
                     990ms,
                     peers_max,
                     {},
                     {.own_status =
                          [this] {
                              ++status.sequence;
                              return status;
                          },
                      .on_status = [](const Status&, const Status&) {},
                      .on_joined = [](const Status&) {},
                      .on_lost = [](const Status&, bool) {}}) {
        status.peer = node.id();
        membership.start();
    }
    std::string address() const { return node.address() + "/p2p/" + node.id().text(); }
    const PeerId& id() const { return node.id(); }

    sim::SimNode& node;
    security::ToyVerifier verifier;
    Status status;  // that it tells
    Membership membership;
};

Task<void> meet_at(DoorPeer& from, std::string address, Result<PeerId>& met) {
    const TimePoint deadline = from.node.clock().now() + Duration(10s);
    met = co_await from.membership.meet(std::move(address), deadline);
}

Result<PeerId> meet(sim::World& world, DoorPeer& from, const DoorPeer& to) {
    Result<PeerId> met = make_error(ErrorKind::timeout, "nothing was tried");
    world.run_task(meet_at(from, to.address(), met));
    return met;
}

// The beginning of a hello (hello_message.h).
struct VainHello {
    Digest run;
    Bytes nonce;
    DEDLOC_FIELDS(run, nonce)
};

// One hello after the other, of which none is proved.
Task<void> greet_in_vain(sim::SimNode& stranger, PeerId host, Digest run, std::uint64_t& said) {
    for (;;) {
        const VainHello hello{run, Bytes(16, static_cast<std::uint8_t>(said))};
        Bytes bytes = wire::encode(hello);
        const TimePoint deadline = stranger.clock().now() + Duration(60s);
        const auto answer =
            co_await stranger.host().call(host, hello_method, std::move(bytes), deadline);
        if (!answer) co_return;
        ++said;
    }
}

// Within each round trip of the newcomer come more hellos of the stranger than are kept.
TEST(Membership, a_stranger_whose_hellos_never_end_shuts_nobody_out) {
    std::uint64_t said = 0;
    sim::WorldOptions options;
    options.link.latency = 50ms;
    sim::World world(4, options);
    sim::NodeOptions fast;
    fast.upload_bytes_per_s = fast.download_bytes_per_s = 125e6;
    DoorPeer host(world.add_node(fast));
    sim::SimNode& stranger = world.add_node(fast);
    DoorPeer late(world.add_node());
    for (std::size_t i = 0; i < pending_hellos_max + 100; ++i)
        world.scope().spawn(
            "hellos", greet_in_vain(stranger, host.id(), run::run_hash(run_at_the_door()), said));
    ASSERT_TRUE(world.run_until([&] { return said > 2 * pending_hellos_max; }, 10s));
    const std::uint64_t said_before = said;
    const auto met = meet(world, late, host);
    EXPECT_TRUE(met) << met.error().message();
    EXPECT_TRUE(host.membership.is_member(late.id()));
    EXPECT_GT(said, said_before + 2 * pending_hellos_max);
    for (DoorPeer* peer : {&host, &late}) world.run_task(peer->membership.stop());
}

Task<void> greet_once(sim::SimNode& from, PeerId host, HelloMessage hello, Result<Bytes>& answer) {
    const TimePoint deadline = from.clock().now() + Duration(10s);
    Bytes bytes = wire::encode(hello);
    answer = co_await from.host().call(host, hello_method, std::move(bytes), deadline);
}

HelloMessage hello_of_the_future() {
    HelloMessage hello;
    hello.nonce = Bytes(hello_nonce_bytes, 1);
    hello.set_protocols({7, 8, "9.9"});
    return hello;
}

TEST(Membership, members_note_the_protocol_that_both_use) {
    sim::World world(7);
    DoorPeer host(world.add_node());
    DoorPeer guest(world.add_node());
    ASSERT_TRUE(meet(world, guest, host));
    EXPECT_EQ(host.membership.find(guest.id())->protocol, protocol_newest);
    EXPECT_EQ(guest.membership.find(host.id())->protocol, protocol_newest);
    for (DoorPeer* peer : {&host, &guest}) world.run_task(peer->membership.stop());
}

TEST(Membership, a_peer_of_another_protocol_is_told_both_and_what_to_get) {
    sim::World world(8);
    DoorPeer host(world.add_node());
    sim::SimNode& newer = world.add_node();
    Result<PeerId> dialled = make_error(ErrorKind::timeout, "");
    Result<Bytes> answer = make_error(ErrorKind::timeout, "nothing was said");
    world.run_task([](sim::SimNode& from, std::string address, Result<PeerId>& to) -> Task<void> {
        const TimePoint deadline = from.clock().now() + Duration(10s);
        to = co_await from.host().dial(address, deadline);
    }(newer, host.address(), dialled));
    ASSERT_TRUE(dialled);
    world.run_task(greet_once(newer, host.id(), hello_of_the_future(), answer));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().kind(), ErrorKind::conflict);
    for (const char* words : {"speaks version 1 of",
                              "dedloc 9.9 here speaks version 7 to 8",
                              "its owner has to install dedloc 9.9 or newer"})
        EXPECT_NE(answer.error().message().find(words), std::string::npos)
            << answer.error().message();

    newer.host().handle_call(hello_method, [](PeerId, Bytes) -> Task<Result<Bytes>> {
        co_return wire::encode(hello_of_the_future());
    });
    const std::string address = newer.address() + "/p2p/" + newer.id().text();
    Result<PeerId> met = make_error(ErrorKind::timeout, "nothing was tried");
    world.run_task(meet_at(host, address, met));
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().kind(), ErrorKind::conflict);
    EXPECT_NE(met.error().message().find("install here dedloc 9.9 or newer"), std::string::npos)
        << met.error().message();
    world.run_task(host.membership.stop());
}

// The addresses may be anybody's.
TEST(Membership, a_peer_that_is_only_heard_of_is_tried_a_few_times) {
    sim::World world(6);
    DoorPeer host(world.add_node());
    DoorPeer gone(world.add_node());
    DoorPeer newcomer(world.add_node());
    ASSERT_TRUE(meet(world, gone, host));
    world.run_for(200ms);
    gone.node.lose_machine();  // nobody is told
    ASSERT_TRUE(meet(world, newcomer, host));
    world.run_for(100s);
    const KnownPeer* const heard_of = newcomer.membership.find(gone.id());
    ASSERT_NE(heard_of, nullptr);
    EXPECT_EQ(heard_of->tries, 4u);
    EXPECT_EQ(heard_of->next_meeting, TimePoint::never());
    for (DoorPeer* peer : {&host, &gone, &newcomer}) world.run_task(peer->membership.stop());
}

TEST(Membership, of_what_a_status_tells_only_the_sound_is_believed) {
    sim::World world(5);
    DoorPeer host(world.add_node());
    DoorPeer teller(world.add_node());
    teller.status.name =
        "a\xc2\x9b"
        "31m\xc3\xa4";
    ASSERT_TRUE(meet(world, teller, host));
    const auto told = [&](double loss, double progress) {
        teller.status.loss = loss;
        teller.status.progress = progress;
        ++teller.status.samples;
        teller.membership.push_now();
        world.run_for(500ms);
        return host.membership.find(teller.id())->status;
    };
    const Status honest = told(2.5, 0.75);
    EXPECT_EQ(honest.loss, 2.5);
    EXPECT_EQ(honest.progress, 0.75);
    EXPECT_EQ(honest.name, "a?31m\xc3\xa4");
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    for (const double wrong : {none, infinity, -infinity, -1.0, 1e300}) {
        const Status status = told(wrong, wrong);
        EXPECT_EQ(status.samples, teller.status.samples);
        EXPECT_EQ(status.loss, 0) << wrong;
        EXPECT_GE(status.progress, 0) << wrong;
        EXPECT_LE(status.progress, 1) << wrong;
    }
    for (DoorPeer* peer : {&host, &teller}) world.run_task(peer->membership.stop());
}

// Two members that have met; both push at whole seconds, and what they say is looked at.
struct TwoWhoTalk {
    explicit TwoWhoTalk(std::uint64_t seed)
        : world(seed), left(world.add_node()), right(world.add_node()) {
        EXPECT_TRUE(meet(world, right, left));
        world.run_for(10s);
        world.on_send([this](const sim::World::Outgoing& sent) { look_at(sent); });
    }
    ~TwoWhoTalk() {
        for (DoorPeer* peer : {&left, &right}) world.run_task(peer->membership.stop());
    }
    void look_at(const sim::World::Outgoing& sent) {
        if (sent.method != status_method) return;
        if (!sent.is_answer) {
            ++pushes;
            if (sent.from == 1 && garbles) sent.payload.assign(7, 0xff);
            return;
        }
        const auto reply = wire::decode<HelloMessage>(sent.payload);
        if (reply && reply->statuses.empty()) ++empty_replies;
    }
    const KnownPeer& right_at_left() const { return *left.membership.find(right.id()); }
    // The right one has pushed at the whole second; so long after, something changes and the left
    // one pushes. Does the right one answer with its status?
    bool answers_in_full(
        Duration after, const std::function<void(Status&)>& change = [](Status&) {}) {
        const auto past = world.now().since_start.count() % Duration(1s).count();
        world.run_for(Duration(1s) - Duration(past) + after);
        change(right.status);
        const int before = empty_replies;
        left.membership.push_now();
        world.run_for(50ms);
        return empty_replies == before;
    }

    sim::World world;
    DoorPeer left;
    DoorPeer right;
    int pushes = 0;
    int empty_replies = 0;
    bool garbles = false;  // the right one's pushes
};

TEST(Membership, two_that_push_at_once_tell_each_other_once) {
    TwoWhoTalk talk(9);
    talk.world.run_for(20s);
    EXPECT_GE(talk.pushes, 38);
    EXPECT_EQ(talk.empty_replies, talk.pushes);
    EXPECT_EQ(talk.right_at_left().status.sequence, talk.right.status.sequence);
    EXPECT_LE(talk.world.now() - talk.right_at_left().received, Duration(1s));
}

TEST(Membership, a_reply_is_empty_only_where_a_push_told_the_same_a_moment_before) {
    TwoWhoTalk talk(10);
    EXPECT_FALSE(talk.answers_in_full(50ms));
    EXPECT_LE(talk.world.now() - talk.right_at_left().received, Duration(50ms)) << "it is there";
    EXPECT_TRUE(talk.answers_in_full(600ms)) << "long ago";
    const auto is_news = [&](const std::function<void(Status&)>& change) {
        return talk.answers_in_full(50ms, change);
    };
    EXPECT_TRUE(is_news([](Status& status) { status.phase = Phase::averaging; }));
    EXPECT_EQ(talk.right_at_left().status.phase, Phase::averaging);
    EXPECT_TRUE(is_news([](Status& status) { ++status.step; }));
    EXPECT_TRUE(is_news([](Status& status) { status.certificate.bytes[0] ^= 1; }));
    EXPECT_TRUE(is_news([](Status& status) { status.samples = 6; })) << "handed in";
    EXPECT_TRUE(is_news([](Status& status) { status.phase = Phase::computing; }));
    EXPECT_FALSE(is_news([](Status& status) { status.samples = 7; })) << "extrapolated";
    EXPECT_TRUE(is_news([](Status& status) { status.samples = 3; })) << "thrown away";
    EXPECT_TRUE(is_news([](Status& status) { status.upload_bytes_per_s = 1e6; }));
    talk.garbles = true;
    EXPECT_TRUE(talk.answers_in_full(50ms)) << "the push came to nothing";
}

TEST(Membership, a_step_applied_and_the_next_one_begun_are_told_at_once) {
    TwoWhoTalk talk(11);
    talk.right.status.phase = Phase::averaging;
    const auto pushes_of = [&](const auto& change) {
        const int before = talk.pushes;
        change(talk.right.status);
        talk.world.run_for(100ms);
        return talk.pushes - before;
    };
    talk.world.run_for(1s);
    const auto apply = [&](Status& status) {
        ++status.step;
        talk.right.membership.push_now();
    };
    EXPECT_EQ(pushes_of([&](Status& status) {
                  apply(status);
                  status.phase = Phase::computing;
                  talk.right.membership.push_now();
              }),
              1);
    EXPECT_EQ(talk.right_at_left().status.phase, Phase::computing);
    EXPECT_EQ(talk.right_at_left().status.step, talk.right.status.step);
    talk.right.status.phase = Phase::averaging;
    talk.right.membership.push_now();
    talk.world.run_for(100ms);
    EXPECT_EQ(pushes_of(apply), 1) << "alone it follows by itself";
    EXPECT_EQ(talk.right_at_left().status.step, talk.right.status.step);
}

}  // namespace
}  // namespace dedloc::membership
