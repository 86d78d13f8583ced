// The gate of a run: every protocol that a peer's host has a handler for is tried by a stranger, by
// a member, and by a member that was put out. What a peer serves is asked of its host, so that a
// protocol that is added later is tried as well.

#include "dedloc/p2p/gate.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <set>

#include "dedloc/admission/admission_message.h"
#include "dedloc/admission/token.h"
#include "dedloc/admission/token_authorizer.h"
#include "dedloc/collab/collaboration.h"
#include "dedloc/collab/stranger_protocols.h"
#include "dedloc/dht/node.h"
#include "dedloc/experts/expert_host.h"
#include "dedloc/experts/ffn_expert.h"
#include "dedloc/membership/membership.h"
#include "dedloc/membership/secret_authorizer.h"
#include "dedloc/p2p/gate.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/security/toy_signature.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/message.h"

#include "tests/common/protocol_probe.h"

namespace dedloc::lab {
namespace {

constexpr std::uint64_t authority_seed = 77;
constexpr std::size_t gate_elements = 64;

run::RunFile gated_run(bool invited) {
    run::RunFile run;
    run.name = "gated";
    run.batch.micro = 16;
    run.robust.emplace();
    if (invited)
        run.access = run::AccessConfig{.authority = security::toy_peer_id(authority_seed).text()};
    return run;
}

// A node that trains, or one that lends itself for experts: together they serve all there is.
class Serving {
  public:
    Serving(sim::SimNode& node, collab::CollaborationOptions options)
        : table_(node.host(), verifier_) {
        if (options.role == membership::Role::trainer) {
            options.layout.parameters_count = gate_elements;
            options.layout.parameters.push_back({"all", 0, gate_elements, true, true});
            options.initial = *replica::initial_state(
                options.run, options.layout, std::vector<float>(gate_elements, 1.0f), {});
        } else {
            experts::HostOptions hosting;
            hosting.grid = {.name = "ffn", .sizes = {2, 2}};
            experts_ = std::make_unique<experts::ExpertHost>(
                node.runtime(),
                node.host(),
                table_,
                node.signer(),
                node.runtime().workers,
                [](const experts::ExpertUid& uid)
                    -> Result<std::unique_ptr<experts::ExpertBackend>> {
                    std::unique_ptr<experts::ExpertBackend> expert =
                        std::make_unique<experts::FfnExpert>(uid, experts::FfnOptions{});
                    return expert;
                },
                std::move(hosting));
        }
        options.name = node.name();
        collaboration_ = *collab::Collaboration::make(
            node.runtime(), node.host(), node.signer(), verifier_, std::move(options), nullptr);
    }
    static Task<void> start(Serving& serving) {
        const auto started = co_await serving.collaboration_->start();
        EXPECT_TRUE(started) << started.error().message();
        serving.table_.start();
        if (serving.experts_) serving.experts_->start();
    }
    static Task<void> stop(Serving& serving) {
        if (serving.experts_) co_await serving.experts_->stop();
        co_await serving.table_.stop();
        co_await serving.collaboration_->stop();
    }

  private:
    security::ToyVerifier verifier_;
    dht::DhtNode table_;
    std::unique_ptr<experts::ExpertHost> experts_;
    std::unique_ptr<collab::Collaboration> collaboration_;
};

struct Tried {
    bool ended = false;
    Ok said;
};

Task<void> speak(p2p::Host& host, PeerId to, std::string method, Tried& tried) {
    auto answer = co_await probe_protocol(host, to, std::move(method));
    if (!answer) tried.said = std::move(answer).error();
    tried.ended = true;
}

class GateTest : public testing::Test {
  protected:
    ~GateTest() override {
        if (member_) world.run_task(stop_member());
        for (auto& one : serving) world.run_task(Serving::stop(*one));
    }
    // `options` of each of the two, by its PeerId.
    void serve(const std::function<collab::CollaborationOptions(const PeerId&)>& options) {
        collab::CollaborationOptions helps = options(helper.id());
        helps.role = membership::Role::observer;
        helps.bootstrap = {address_of(trainer)};
        serving.push_back(std::make_unique<Serving>(trainer, options(trainer.id())));
        world.run_task(Serving::start(*serving.back()));
        serving.push_back(std::make_unique<Serving>(helper, std::move(helps)));
        world.run_task(Serving::start(*serving.back()));
    }
    static std::string address_of(const sim::SimNode& node) {
        return node.address() + "/p2p/" + node.id().text();
    }
    // The visitor says hello.
    void join(bool invited, std::shared_ptr<membership::Authorizer> authorizer) {
        membership::Membership::Callbacks callbacks;
        callbacks.own_status = [this] {
            membership::Status status;
            status.peer = visitor.id();
            status.sequence = ++sequence_;
            return status;
        };
        callbacks.on_status = [](const auto&, const auto&) {};
        callbacks.on_joined = [](const auto&) {};
        callbacks.on_lost = [](const auto&, bool) {};
        member_ = std::make_unique<membership::Membership>(
            visitor.runtime(),
            visitor.host(),
            visitor.signer(),
            verifier,
            gated_run(invited),
            std::move(authorizer),
            Duration(1s),
            membership::peers_max,
            collab::stranger_protocols(collab::TableUse::none),
            std::move(callbacks));
        member_->start();
        for (const sim::SimNode* node : {&trainer, &helper})
            world.run_task(meet(address_of(*node)));
    }
    Task<void> meet(std::string address) {
        const TimePoint deadline = world.now() + Duration(5s);
        const auto met = co_await member_->meet(std::move(address), deadline);
        EXPECT_TRUE(met) << met.error().message();
    }
    Task<void> tell_trainer(Bytes message) {
        const TimePoint deadline = world.now() + Duration(5s);
        std::string method = admission::revoked_method;
        const auto told = co_await visitor.host().call(
            trainer.id(), std::move(method), std::move(message), deadline);
        EXPECT_TRUE(told) << told.error().message();
    }
    Task<void> stop_member() { co_await member_->stop(); }

    // Names of the protocols that the gates of both refuse the visitor.
    std::set<std::string> refused() {
        std::set<std::string> names;
        for (sim::SimNode* node : {&trainer, &helper})
            for (const std::string& method : p2p::gate_of(node->host()).methods()) {
                Tried tried;
                visitor.host().add_addresses(node->id(), {node->address()});
                world.run_task(speak(visitor.host(), node->id(), method, tried));
                EXPECT_TRUE(tried.ended) << method;
                if (!tried.said && is_refused_by_gate(tried.said.error())) names.insert(method);
            }
        return names;
    }
    std::set<std::string> all_but_strangers() {
        std::set<std::string> names;
        for (sim::SimNode* node : {&trainer, &helper})
            for (const std::string& method : p2p::gate_of(node->host()).methods())
                names.insert(method);
        std::vector<p2p::OpenProtocol> open = collab::stranger_protocols(collab::TableUse::none);
        std::ranges::copy(membership::stranger_protocols(), std::back_inserter(open));
        for (const p2p::OpenProtocol& protocol : open) {
            EXPECT_FALSE(protocol.reason.empty());
            names.erase(std::string(protocol.name));
        }
        return names;
    }

    sim::World world{5};
    security::ToyVerifier verifier;
    sim::SimNode& trainer = world.add_node();
    sim::SimNode& helper = world.add_node();
    sim::SimNode& visitor = world.add_node();
    std::vector<std::unique_ptr<Serving>> serving;
    std::unique_ptr<membership::Membership> member_;
    std::uint64_t sequence_ = 0;
};

TEST_F(GateTest, every_protocol_of_a_run_with_a_secret_is_closed_to_strangers_and_open_to_members) {
    const Bytes secret(16, 7);
    serve([&](const PeerId&) {
        collab::CollaborationOptions options;
        options.run = gated_run(false);
        options.secret = secret;
        return options;
    });
    const std::set<std::string> closed = all_but_strangers();
    for (const char* served : {"ConnectionHandler.rpc_forward",
                               "ConnectionHandler.rpc_backward_stream",
                               "DHTProtocol.rpc_store",
                               "/dedloc/status/1",
                               "/dedloc/run_file/1"})
        EXPECT_TRUE(closed.contains(served)) << served;
    EXPECT_GT(closed.size(), 30u) << "a peer serves more than that";
    EXPECT_EQ(refused(), closed);
    join(false, std::make_shared<membership::SecretAuthorizer>(secret));
    EXPECT_EQ(refused(), std::set<std::string>());
}

TEST_F(GateTest, a_token_opens_what_its_revocation_closes) {
    const security::ToySigner authority(authority_seed);
    const run::RunFile run = gated_run(true);
    const Digest hash = run::run_hash(run);
    const WallSeconds now = trainer.clock().wall_now();
    const auto token_for = [&](const PeerId& holder, const std::string& name) {
        const admission::Grant grant{.subject = name, .holder = holder};
        return admission::encode_token(*admission::issue_token(authority, hash, grant, now));
    };
    serve([&](const PeerId& self) {
        collab::CollaborationOptions options;
        options.run = run;
        options.admitted.token = token_for(self, "olga");
        return options;
    });
    const std::set<std::string> closed = all_but_strangers();
    EXPECT_TRUE(closed.contains(admission::revoked_method));
    EXPECT_EQ(refused(), closed);
    auto authorizer = std::make_shared<admission::TokenAuthorizer>(
        hash, authority.id(), verifier, visitor.clock());
    authorizer->set_own(token_for(visitor.id(), "mallory"));
    join(true, authorizer);
    EXPECT_EQ(refused(), std::set<std::string>());
    admission::RevocationsMessage message;
    message.revocations.push_back(admission::revoke_subject(authority, hash, "mallory", now));
    world.run_task(tell_trainer(wire::encode(message)));
    world.run_for(1s);
    EXPECT_EQ(refused(), closed);
}

}  // namespace
}  // namespace dedloc::lab
