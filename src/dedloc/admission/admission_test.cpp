// Admission by tokens in virtual time: codes, renewal, expiry, revocation, co-organisers.

#include <algorithm>
#include <gtest/gtest.h>

#include "dedloc/admission/admission_client.h"
#include "dedloc/admission/admission_service.h"
#include "dedloc/admission/book_issuer.h"
#include "dedloc/membership/membership.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/toy_signature.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/message.h"

namespace dedloc::admission {
namespace {

constexpr WallSeconds hour = 3600;
constexpr std::uint64_t authority_seed = 77;

run::RunFile invited_run() {
    run::RunFile run;
    run.name = "invited";
    run.access = run::AccessConfig{.authority = security::toy_peer_id(authority_seed).text()};
    return run;
}

// A peer at the door of an invited run, with an issuer if it organises.
struct InvitedPeer : events::Teller {
    explicit InvitedPeer(sim::SimNode& on, std::shared_ptr<Issuer> issuer = nullptr)
        : node(on),
          authorizer(std::make_shared<TokenAuthorizer>(run::run_hash(invited_run()),
                                                       security::toy_peer_id(authority_seed),
                                                       verifier,
                                                       node.clock())),
          membership(node.runtime(),
                     node.host(),
                     node.signer(),
                     verifier,
                     invited_run(),
                     authorizer,
                     1s,
                     membership::peers_max,
                     {{admission_method, "as in a run"}},
                     callbacks()),
          admission(node.runtime(), node.host(), authorizer, std::move(issuer), *this, service()) {
        status.peer = node.id();
    }
    void begin(Admitted own = {}) {
        const Ok started = admission.start(std::move(own));
        EXPECT_TRUE(started) << started.error().message();
        membership.start();
    }
    membership::Membership::Callbacks callbacks() {
        membership::Membership::Callbacks callbacks;
        callbacks.own_status = [this] {
            ++status.sequence;
            status.lets_in = admission.lets_in();
            return status;
        };
        callbacks.on_status = [](const membership::Status&, const membership::Status&) {};
        callbacks.on_joined = [this](const membership::Status& peer) {
            admission.greet(peer.peer);
        };
        callbacks.on_lost = [this](const membership::Status&, bool) { ++lost; };
        callbacks.on_refused = [this](const PeerId&, const Error& why) {
            refusals.push_back(why.message());
        };
        callbacks.on_refused_by = callbacks.on_refused;
        return callbacks;
    }
    AdmissionService::Callbacks service() {
        AdmissionService::Callbacks callbacks;
        callbacks.members = [this] { return members(false); };
        callbacks.organisers = [this] { return members(true); };
        callbacks.part_from_revoked = [this] { membership.check_admission(); };
        callbacks.make_issuer = [this](const admission::Delegation& delegation,
                                       const std::string& name) {
            BookIssuer::Right right;
            right.signer = std::make_shared<security::ToySigner>(node.signer());
            right.delegation = delegation;
            right.own_name = name;
            return std::shared_ptr<Issuer>(*BookIssuer::open(node.runtime().disk,
                                                             node.clock(),
                                                             verifier,
                                                             run::run_hash(invited_run()),
                                                             std::move(right)));
        };
        return callbacks;
    }
    void tell(events::Any what, PeerId, std::string text) override {
        if (const auto* revoked = std::get_if<events::Revoked>(&what))
            own_revocation |= revoked->ours;
        told.push_back(std::move(text));
    }
    std::vector<PeerId> members(bool organisers) const {
        std::vector<PeerId> peers;
        for (const membership::KnownPeer* peer : membership.live())
            if (!organisers || peer->status.lets_in) peers.push_back(peer->status.peer);
        return peers;
    }
    std::string address() const { return node.address() + "/p2p/" + node.id().text(); }
    bool was_told(std::string_view words) const {
        const auto has = [words](const std::string& text) {
            return text.find(words) != std::string::npos;
        };
        return std::ranges::any_of(refusals, has) || std::ranges::any_of(told, has);
    }

    sim::SimNode& node;
    security::ToyVerifier verifier;
    membership::Status status;
    std::vector<std::string> refusals;
    std::vector<std::string> told;
    int lost = 0;
    bool own_revocation = false;
    std::shared_ptr<TokenAuthorizer> authorizer;
    membership::Membership membership;
    AdmissionService admission;
};

class AdmissionTest : public testing::Test {
  protected:
    AdmissionTest() { organiser.begin(); }
    ~AdmissionTest() override { stop(organiser); }

    std::shared_ptr<Issuer> issuer_of(sim::SimNode& node) {
        BookIssuer::Right right;
        right.signer = std::make_shared<security::ToySigner>(authority_seed);
        right.own_name = "olga";
        auto issuer = *BookIssuer::open(node.runtime().disk,
                                        node.clock(),
                                        verifier,
                                        run::run_hash(invited_run()),
                                        std::move(right));
        book = issuer.get();
        return issuer;
    }
    void wish(const Wish& wish) {
        const std::string path = fmt::format("{}/{}", wishes_folder, ++wishes);
        ASSERT_TRUE(organiser.node.runtime().disk.write_atomically(path, wire::encode(wish)));
        pass(2s);
    }
    // The personal join string of somebody.
    run::JoinString invited(const std::string& name, bool organises = false) {
        run::JoinString join;
        join.run = run::run_hash(invited_run());
        join.addresses = {organiser.address()};
        join.authority = security::toy_peer_id(authority_seed);
        join.code = Bytes(run::invitation_code_bytes, static_cast<std::uint8_t>(++codes));
        Wish invitation;
        invitation.kind = WishKind::invite;
        invitation.name = name;
        invitation.code_hash = security::sha256(join.code);
        invitation.lifetime = static_cast<std::uint64_t>(24 * hour);
        invitation.organises = organises;
        wish(invitation);
        return join;
    }
    Result<Admitted> token(InvitedPeer& peer, const run::JoinString& join) {
        Result<Admitted> got = make_error(ErrorKind::timeout, "nothing was tried");
        world.run_task(get_token(peer, join, got));
        return got;
    }
    static Task<void> get_token(InvitedPeer& peer, run::JoinString join, Result<Admitted>& got) {
        const TimePoint deadline = peer.node.clock().now() + Duration(10s);
        got = co_await token_for(
            peer.node.host(), peer.node.runtime().disk, std::move(join), deadline);
    }
    static Task<void> meet_at(InvitedPeer& from, std::string address, Result<PeerId>& met) {
        const TimePoint deadline = from.node.clock().now() + Duration(10s);
        met = co_await from.membership.meet(std::move(address), deadline);
    }
    Result<PeerId> meet(InvitedPeer& from, const InvitedPeer& to) {
        Result<PeerId> met = make_error(ErrorKind::timeout, "nothing was tried");
        world.run_task(meet_at(from, to.address(), met));
        return met;
    }
    void join(InvitedPeer& peer, const std::string& name, bool organises = false) {
        const auto admitted = token(peer, invited(name, organises));
        ASSERT_TRUE(admitted) << admitted.error().message();
        peer.begin(*admitted);
        const auto met = meet(peer, organiser);
        ASSERT_TRUE(met) << met.error().message();
    }
    void pass(Duration time) { world.run_for(time); }
    void stop(InvitedPeer& peer) {
        world.run_task(peer.admission.stop());
        world.run_task(peer.membership.stop());
    }
    void revoke(const std::string& name) {
        Wish revocation;
        revocation.kind = WishKind::revoke;
        revocation.name = name;
        wish(revocation);
    }

    // A peer that has come in by an invitation of this name.
    struct Member : InvitedPeer {
        Member(AdmissionTest& test, const std::string& name, bool organises = false)
            : InvitedPeer(test.world.add_node()), test_(test) {
            test.join(*this, name, organises);
        }
        ~Member() { test_.stop(*this); }

        AdmissionTest& test_;
    };

    sim::World world{21};
    security::ToyVerifier verifier;
    BookIssuer* book = nullptr;
    int wishes = 0;
    int codes = 0;
    sim::SimNode& organisers_node = world.add_node();
    InvitedPeer organiser{organisers_node, issuer_of(organisers_node)};
};

TEST_F(AdmissionTest, a_code_is_good_on_one_device) {
    InvitedPeer laptop(world.add_node());
    InvitedPeer thief(world.add_node());
    const run::JoinString string = invited("ana");
    ASSERT_TRUE(token(laptop, string));
    const auto stolen = token(thief, string);
    ASSERT_FALSE(stolen);
    EXPECT_EQ(stolen.error().kind(), ErrorKind::denied);
    EXPECT_NE(stolen.error().message().find("another device"), std::string::npos);
    EXPECT_TRUE(organiser.was_told("another device"));
    EXPECT_EQ(book->book().people().at("ana").devices(), 1u);
}

TEST_F(AdmissionTest, nobody_comes_in_without_a_token) {
    InvitedPeer stranger(world.add_node());
    stranger.begin();
    const auto met = meet(stranger, organiser);
    ASSERT_FALSE(met);
    EXPECT_NE(met.error().message().find("no token was presented"), std::string::npos);
    EXPECT_TRUE(organiser.was_told("no token was presented"));
    EXPECT_FALSE(organiser.membership.is_member(stranger.node.id()));
    stop(stranger);
}

TEST_F(AdmissionTest, a_token_is_renewed_and_its_holder_stays) {
    Member ana(*this, "ana");
    Member ben(*this, "ben");
    pass(7h);
    EXPECT_EQ(organiser.lost + ana.lost + ben.lost, 0);
    EXPECT_TRUE(organiser.membership.is_member(ana.node.id()));
    EXPECT_TRUE(ana.membership.is_member(ben.node.id()));
}

TEST_F(AdmissionTest, without_an_organiser_tokens_end_and_members_part) {
    Member ana(*this, "ana");
    Member ben(*this, "ben");
    pass(10s);
    ASSERT_TRUE(ana.membership.is_member(ben.node.id()));
    world.block(organiser.node, ana.node);
    world.block(organiser.node, ben.node);
    pass(5h);
    EXPECT_TRUE(ana.membership.is_member(ben.node.id()));
    pass(2h);
    EXPECT_FALSE(ana.membership.is_member(ben.node.id()));
    EXPECT_TRUE(ana.was_told("expired"));
    EXPECT_TRUE(ana.was_told("could not be renewed"));
}

TEST_F(AdmissionTest, a_co_organiser_renews_while_the_organiser_is_away) {
    Member carla(*this, "carla", true);
    EXPECT_TRUE(carla.admission.lets_in());
    Member ana(*this, "ana");
    pass(10s);
    world.block(organiser.node, ana.node);
    world.block(organiser.node, carla.node);
    pass(13h);
    EXPECT_TRUE(ana.membership.is_member(carla.node.id()));
    EXPECT_TRUE(carla.membership.is_member(ana.node.id()));
}

TEST_F(AdmissionTest, who_is_revoked_is_out_in_seconds_everywhere_and_told_so) {
    Member ana(*this, "ana");
    Member ben(*this, "ben");
    pass(10s);
    ASSERT_TRUE(ana.membership.is_member(ben.node.id()));
    revoke("ana");
    pass(3s);
    EXPECT_FALSE(organiser.membership.is_member(ana.node.id()));
    EXPECT_FALSE(ben.membership.is_member(ana.node.id()));
    EXPECT_TRUE(ben.membership.is_member(organiser.node.id()));
    EXPECT_TRUE(ana.own_revocation);
    EXPECT_TRUE(ana.was_told("revoked the admission of ana"));
    const auto again = meet(ana, organiser);
    ASSERT_FALSE(again);
    EXPECT_NE(again.error().message().find("revoked"), std::string::npos);
}

TEST_F(AdmissionTest, a_revoked_co_organiser_lets_nobody_in) {
    auto carla = std::make_unique<Member>(*this, "carla", true);
    pass(5s);
    // The co-organiser signs a token later, away from the others.
    const auto kept = kept_token(carla->node.runtime().disk);
    ASSERT_TRUE(kept && kept->delegation);
    InvitedPeer mallory(world.add_node());
    const admission::Token token =
        *admission::issue_token(carla->node.signer(),
                                run_hash(invited_run()),
                                {.subject = "mallory", .holder = mallory.node.id()},
                                mallory.node.clock().wall_now() - 2 * hour,
                                kept->delegation);
    revoke("carla");
    pass(3s);
    EXPECT_FALSE(carla->admission.lets_in()) << "it was told, and is honest";
    Admitted own;
    own.token = admission::encode_token(token);
    mallory.begin(own);
    const auto met = meet(mallory, organiser);
    ASSERT_FALSE(met);
    EXPECT_NE(met.error().message().find("carla"), std::string::npos) << met.error().message();
    stop(mallory);
}

TEST_F(AdmissionTest, people_whom_a_revoked_co_organiser_had_let_in_stay_and_can_be_revoked) {
    auto carla = std::make_unique<Member>(*this, "carla", true);
    InvitedPeer ana(world.add_node());
    const auto delegation = kept_token(carla->node.runtime().disk)->delegation;
    Admitted own;
    own.token =
        admission::encode_token(*admission::issue_token(carla->node.signer(),
                                                        run_hash(invited_run()),
                                                        {.subject = "ana", .holder = ana.node.id()},
                                                        ana.node.clock().wall_now(),
                                                        delegation));
    ana.begin(own);
    ASSERT_TRUE(meet(ana, organiser));
    EXPECT_EQ(book->book().people().at("ana").let_in_by, "carla");
    revoke("carla");
    pass(1h);
    EXPECT_TRUE(organiser.membership.is_member(ana.node.id()));
    EXPECT_EQ(organiser.authorizer->let_in_by(ana.node.id()), "") << "the organiser signed anew";
    revoke("ana");
    EXPECT_FALSE(organiser.membership.is_member(ana.node.id()));
    EXPECT_TRUE(ana.own_revocation);
    stop(ana);
}

TEST_F(AdmissionTest, a_co_organiser_revokes_others_for_good_and_the_organiser_never) {
    Member ben(*this, "ben");
    auto carla = std::make_unique<Member>(*this, "carla", true);
    pass(5s);
    const auto wish_of_carla = [&](const std::string& name) {
        Wish revocation;
        revocation.kind = WishKind::revoke;
        revocation.name = name;
        const std::string path = fmt::format("{}/{}", wishes_folder, name);
        runtime::Disk& disk = carla->node.runtime().disk;
        ASSERT_TRUE(disk.write_atomically(path, wire::encode(revocation)));
        pass(3s);
    };
    wish_of_carla("olga");
    EXPECT_TRUE(organiser.membership.is_member(carla->node.id()));
    EXPECT_TRUE(ben.membership.is_member(organiser.node.id()));
    wish_of_carla("ben");
    EXPECT_FALSE(organiser.membership.is_member(ben.node.id()));
    EXPECT_TRUE(book->book().revoked().contains("ben")) << "the organiser signs it, too";
    revoke("carla");
    Member dora(*this, "dora");
    pass(3s);
    EXPECT_TRUE(dora.was_told("revoked the admission of ben"));
}

TEST_F(AdmissionTest, a_co_organisers_right_is_extended_while_it_takes_part) {
    Member carla(*this, "carla", true);
    const auto first = kept_token(carla.node.runtime().disk);
    ASSERT_TRUE(first && first->delegation);
    pass(4h);
    EXPECT_TRUE(organiser.membership.is_member(carla.node.id()));
    EXPECT_TRUE(carla.admission.lets_in());
    const auto kept = kept_token(carla.node.runtime().disk);
    ASSERT_TRUE(kept && kept->delegation);
    EXPECT_GT(kept->delegation->not_after, first->delegation->not_after);
}

TEST_F(AdmissionTest, a_clock_that_was_wrong_for_ten_seconds_shuts_nobody_out) {
    Member ana(*this, "ana");
    Member ben(*this, "ben");
    pass(10s);
    for (InvitedPeer* whose : {&organiser, static_cast<InvitedPeer*>(&ana)})
        for (const Duration leap : {Duration(26h), Duration(-26h)}) {
            whose->node.step_wall_clock(leap);
            pass(10s);
            whose->node.step_wall_clock(-leap);
            pass(30s);
            for (const InvitedPeer* one : {&ana, &ben})
                EXPECT_TRUE(organiser.membership.is_member(one->node.id()));
            EXPECT_TRUE(ana.membership.is_member(organiser.node.id()));
            EXPECT_TRUE(ana.membership.is_member(ben.node.id()));
        }
}

TEST_F(AdmissionTest, a_wish_that_makes_no_sense_is_refused_in_words) {
    revoke("nobody");
    const auto why = organiser.node.runtime().disk.read(
        fmt::format("{}/{}{}", wishes_folder, wishes, refusal_suffix));
    ASSERT_TRUE(why);
    EXPECT_NE(as_text(*why).find("nobody called"), std::string::npos);
}

TEST_F(AdmissionTest, a_clock_that_is_wrong_is_said_with_by_how_much) {
    sim::NodeOptions late;
    late.wall_skew = -2h;
    InvitedPeer ana(world.add_node(late));
    const auto admitted = token(ana, invited("ana"));
    ASSERT_FALSE(admitted);
    EXPECT_NE(admitted.error().message().find("2 h behind"), std::string::npos)
        << admitted.error().message();
}

}  // namespace
}  // namespace dedloc::admission
