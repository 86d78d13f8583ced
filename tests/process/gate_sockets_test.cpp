// The gate of a run over real sockets: every protocol that a peer's host has a handler for is tried
// by a stranger, by somebody with the run's secret or a token, and after the token was revoked. The
// same in virtual time, with more kinds of peers: tests/sim/gate_test.cpp.

#include <gtest/gtest.h>
#include <memory>
#include <set>

#include "dedloc/admission/admission_message.h"
#include "dedloc/admission/token.h"
#include "dedloc/collab/collaboration_service.h"
#include "dedloc/collab/expert_service.h"
#include "dedloc/collab/stranger_protocols.h"
#include "dedloc/data/piece_exchange.h"
#include "dedloc/experts/ffn_expert.h"
#include "dedloc/membership/membership.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/run/join_string.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/identity.h"
#include "dedloc/wire/message.h"

#include "tests/common/protocol_probe.h"
#include "tests/common/temporary_folder.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t gate_elements = 64;
constexpr Duration gate_timeout = 30s;

Result<std::unique_ptr<experts::ExpertBackend>> make_expert(const experts::ExpertUid& uid) {
    std::unique_ptr<experts::ExpertBackend> expert =
        std::make_unique<experts::FfnExpert>(uid, experts::FfnOptions{});
    return expert;
}

std::unique_ptr<collab::Node> open_node(const std::string& folder) {
    collab::NodeOptions options;
    options.directory = folder;
    options.listen = {"/ip4/127.0.0.1/tcp/0"};
    options.workers_count = 1;
    options.nat.map_ports = false;
    return *collab::Node::open(std::move(options));
}

// The run's data at the trainer: one piece.
class SharedData final : public collab::Service {
  public:
    explicit SharedData(const collab::Node& node) : node_(node) {
        const auto read = [](std::uint64_t) -> Result<Bytes> {
            return to_bytes("In the beginning");
        };
        data::OwnPieces own = *data::catalogue_of({16}, {}, read);
        name_ = security::sha256(wire::encode(own.catalogue));
        data::ExchangeOptions options{
            .name = name_,
            .catalogue = std::make_shared<const data::Catalogue>(own.catalogue),
            .store = std::make_shared<data::OwnStore>(std::move(own)),
            .authorizer = nullptr,
            .serves = false};
        node_.run_on_network_thread([&] {
            exchange_ = std::make_unique<data::PieceExchange>(
                node_.environment(), node_.host(), std::move(options));
        });
    }
    membership::Role role() const override { return membership::Role::observer; }
    Task<void> stop() override { co_await exchange_->stop(); }
    void serve(const collab::Collaboration& collaboration) {
        node_.run_on_network_thread([&] { exchange_->serve_with(collaboration.authorizer()); });
    }
    const Digest& name() const { return name_; }

  private:
    const collab::Node& node_;
    Digest name_;
    std::unique_ptr<data::PieceExchange> exchange_;
};

// A node that trains, or, where it is told of one that does, one that serves experts beside it: a
// part of the table and everything that peers serve is at the two together.
class Server {
  public:
    Server(const std::string& folder, run::RunFile run, const std::string& trainer = {})
        : node(open_node(folder)) {
        node->join_table();
        collab::ExpertService* experts = nullptr;
        if (!trainer.empty()) {
            experts::HostOptions hosting;
            hosting.grid = {.name = "ffn", .sizes = {2, 2}};
            experts = &node->add<collab::ExpertService>(*node, make_expert, std::move(hosting));
        }
        auto& service = node->add<collab::CollaborationService>(*node);
        collab::CollaborationOptions options;
        options.run = std::move(run);
        if (!options.run.access) options.secret = secret;
        if (options.run.access) options.admitted.token = token_for(options.run, node->id(), "olga");
        if (trainer.empty()) {
            options.layout.parameters_count = gate_elements;
            options.layout.parameters.push_back({"all", 0, gate_elements, true, true});
            options.initial = *replica::initial_state(
                options.run, options.layout, std::vector<float>(gate_elements, 1.0f), {});
        } else {
            options.role = membership::Role::observer;
            options.bootstrap = {trainer};
        }
        if (trainer.empty()) data = &node->add<SharedData>(*node);
        const auto begun = service.begin(std::move(options), nullptr);
        EXPECT_TRUE(begun) << begun.error().message();
        if (data) data->serve(service.collaboration());
        if (experts) experts->start();
        address = node->run_on_network_thread([this] { return node->host().addresses(); }).at(0) +
                  "/p2p/" + node->id().text();
    }

    static Bytes token_for(const run::RunFile& run, const PeerId& holder, const std::string& name) {
        const security::IdentitySigner signer(authority());
        const admission::Grant grant{.subject = name, .holder = holder};
        return admission::encode_token(
            *admission::issue_token(signer, run::run_hash(run), grant, wall_now()));
    }
    static const security::Identity& authority() {
        static const security::Identity key = security::Identity::generate();
        return key;
    }
    static WallSeconds wall_now() {
        return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    }
    std::vector<std::string> methods() const {
        return node->run_on_network_thread([this] { return p2p::gate_of(node->host()).methods(); });
    }
    // All but those that strangers may speak.
    std::set<std::string> closed() const {
        const auto all = methods();
        std::set<std::string> names(all.begin(), all.end());
        for (const auto& open : collab::stranger_protocols(collab::TableUse::none))
            names.erase(std::string(open.name));
        for (const auto& open : membership::stranger_protocols())
            names.erase(std::string(open.name));
        return names;
    }

    std::unique_ptr<collab::Node> node;
    SharedData* data = nullptr;  // the node's
    const Bytes secret = Bytes(16, 7);
    std::string address;
};

class GateSockets : public testing::Test {
  protected:
    void begin(bool invited) {
        run_.name = "gated";
        run_.batch.micro = 16;
        run_.robust.emplace();
        if (invited) run_.access = run::AccessConfig{.authority = Server::authority().id().text()};
        trainer_ = std::make_unique<Server>(folder_.path() + "/trainer", run_);
        helper_ = std::make_unique<Server>(folder_.path() + "/helper", run_, trainer_->address);
        visitor_ = open_node(folder_.path() + "/visitor");
        for (const Server* server : {trainer_.get(), helper_.get()})
            ASSERT_TRUE(dial(*server)) << server->address;
    }
    bool dial(const Server& server) {
        const TimePoint soon = visitor_->clock().now() + gate_timeout;
        return bool(visitor_->call("dial", visitor_->host().dial(server.address, soon)));
    }
    void join() {
        collab::CollaborationOptions options;
        options.run = run_;
        if (!run_.access) options.secret = trainer_->secret;
        options.role = membership::Role::observer;
        options.bootstrap = {trainer_->address, helper_->address};
        if (run_.access)
            options.admitted.token = Server::token_for(run_, visitor_->id(), "mallory");
        auto& service = visitor_->add<collab::CollaborationService>(*visitor_);
        const auto begun = service.begin(std::move(options), nullptr);
        ASSERT_TRUE(begun) << begun.error().message();
    }
    // Names of the protocols that the gates of both refuse the visitor.
    std::set<std::string> refused() {
        std::set<std::string> names;
        for (const Server* server : {trainer_.get(), helper_.get()})
            for (const std::string& method : server->methods()) {
                const auto answer = visitor_->call(
                    "probe", probe_protocol(visitor_->host(), server->node->id(), method));
                if (!answer && is_refused_by_gate(answer.error())) names.insert(method);
            }
        return names;
    }
    std::set<std::string> closed() const {
        std::set<std::string> names = trainer_->closed();
        names.merge(helper_->closed());
        return names;
    }
    // Asks the trainer for its piece of data, with that proof.
    Result<Bytes> piece(Bytes proof) {
        data::PiecesRequest question;
        question.catalogue = trainer_->data->name();
        question.pieces = {0};
        question.proof = std::move(proof);
        const TimePoint soon = visitor_->clock().now() + gate_timeout;
        return visitor_->call(
            "ask for data",
            visitor_->host().call(
                trainer_->node->id(), data::pieces_method, wire::encode(question), soon));
    }
    void revoke_mallory() {
        admission::RevocationsMessage message;
        const security::IdentitySigner signer(Server::authority());
        message.revocations.push_back(
            admission::revoke_subject(signer, run::run_hash(run_), "mallory", Server::wall_now()));
        const TimePoint soon = visitor_->clock().now() + gate_timeout;
        const auto told = visitor_->call(
            "revoke",
            visitor_->host().call(
                trainer_->node->id(), admission::revoked_method, wire::encode(message), soon));
        ASSERT_TRUE(told) << told.error().message();
    }

    TemporaryFolder folder_ = *TemporaryFolder::make();
    run::RunFile run_;
    std::unique_ptr<Server> trainer_;
    std::unique_ptr<Server> helper_;
    std::unique_ptr<collab::Node> visitor_;
};

TEST_F(GateSockets, a_run_is_closed_to_strangers_and_open_to_who_was_let_in) {
    begin(/*invited=*/false);
    const std::set<std::string> wanted = closed();
    EXPECT_GT(wanted.size(), 30u) << "a peer serves more than that";
    EXPECT_TRUE(wanted.contains("ConnectionHandler.rpc_forward"));
    EXPECT_EQ(refused(), wanted);
    join();
    EXPECT_EQ(refused(), std::set<std::string>());
}

TEST_F(GateSockets, a_token_opens_what_its_revocation_closes) {
    begin(/*invited=*/true);
    const std::set<std::string> wanted = closed();
    EXPECT_EQ(refused(), wanted);
    join();
    EXPECT_EQ(refused(), std::set<std::string>());
    revoke_mallory();
    // Put out, the visitor may have to come again, as the stranger that it now is.
    for (const Server* server : {trainer_.get(), helper_.get()}) (void)dial(*server);
    EXPECT_EQ(refused(), wanted);
}

// Newcomers ask for data before they are members, so the gate lets the question through: what
// answers it has to hear of revocations.
TEST_F(GateSockets, data_go_to_who_has_a_token_and_not_after_its_revocation) {
    begin(/*invited=*/true);
    const Bytes token = Server::token_for(run_, visitor_->id(), "mallory");
    const auto nothing = piece({});
    ASSERT_FALSE(nothing);
    EXPECT_EQ(nothing.error().kind(), ErrorKind::denied);
    const auto got = piece(token);
    ASSERT_TRUE(got) << got.error().message();
    join();
    revoke_mallory();
    (void)dial(*trainer_);
    auto late = piece(token);
    // The trainer may have closed the member's connection under that question.
    if (!late && late.error().kind() == ErrorKind::peer_gone) {
        (void)dial(*trainer_);
        late = piece(token);
    }
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().kind(), ErrorKind::denied) << late.error().message();
}

}  // namespace
}  // namespace dedloc::lab
