#include "dedloc/collab/run_access.h"

#include "dedloc/admission/book_issuer.h"
#include "dedloc/admission/token_authorizer.h"
#include "dedloc/membership/secret_authorizer.h"

namespace dedloc::collab {
namespace {

constexpr Duration key_told_pause = 60s;  // all members say that a key is used twice

}  // namespace

RunAccess::RunAccess(runtime::Node node,
                     p2p::Host& host,
                     const security::Signer& signer,
                     const security::Verifier& verifier,
                     const CollaborationOptions& options,
                     events::Teller& teller)
    : node_(node), run_(run::run_hash(options.run)), teller_(teller) {
    if (!options.run.access) {
        authorizer_ = std::make_shared<membership::SecretAuthorizer>(options.secret);
        return;
    }
    const auto authority = PeerId::from_text(options.run.access->authority);
    DEDLOC_CHECK(authority.has_value(), "the run file was checked");
    auto authorizer =
        std::make_shared<admission::TokenAuthorizer>(run_, *authority, verifier, node_.clock);
    authorizer_ = authorizer;
    judge_ =
        std::make_unique<admission::RevocationJudge>(host, authorizer, consensus::no_new_orders());
    service_ = std::make_unique<admission::AdmissionService>(
        node_, host, std::move(authorizer), options.issuer, teller_, callbacks(signer, verifier));
}

std::vector<PeerId> RunAccess::live(bool organisers_only) const {
    std::vector<PeerId> peers;
    for (const membership::KnownPeer* peer : membership_->live())
        if (!organisers_only || peer->status.lets_in) peers.push_back(peer->status.peer);
    return peers;
}

admission::AdmissionService::Callbacks RunAccess::callbacks(const security::Signer& signer,
                                                            const security::Verifier& verifier) {
    admission::AdmissionService::Callbacks callbacks;
    callbacks.members = [this] { return live(/*organisers_only=*/false); };
    callbacks.organisers = [this] { return live(/*organisers_only=*/true); };
    callbacks.part_from_revoked = [this] { membership_->check_admission(); };
    callbacks.make_issuer = [this, &signer, &verifier](const admission::Delegation& delegation,
                                                       const std::string& name) {
        admission::BookIssuer::Right right;
        // The node's own, which outlives what runs on it.
        right.signer = std::shared_ptr<const security::Signer>(&signer, [](const auto*) {});
        right.delegation = delegation;
        right.own_name = name;
        auto issuer =
            admission::BookIssuer::open(node_.disk, node_.clock, verifier, run_, std::move(right));
        if (!issuer) teller_.tell(events::RenewalFailed{}, {}, issuer.error().message());
        return issuer ? std::shared_ptr<admission::Issuer>(*std::move(issuer)) : nullptr;
    };
    return callbacks;
}

consensus::OrderJudge& RunAccess::judge() const {
    return judge_ ? *judge_ : consensus::no_new_orders();
}

Ok RunAccess::start(const admission::Admitted& admitted) {
    return service_ ? service_->start(admitted) : Ok();
}

Task<void> RunAccess::stop() {
    if (service_) co_await service_->stop();
}

void RunAccess::greet(const PeerId& peer) {
    if (service_) service_->greet(peer);
}

void RunAccess::obey(const consensus::Base* base) {
    if (!service_ || base == nullptr) return;
    for (const auto& order : base->orders.list())
        if (base->orders.revoking(order.person) == &order) service_->obey(order.person);
}

void RunAccess::key_is_used_twice(const Error& why) {
    if (node_.clock.now() < key_told_again_) return;
    key_told_again_ = node_.clock.now() + key_told_pause;
    teller_.tell(events::KeyUsedTwice{}, {}, why.message());
}

}  // namespace dedloc::collab
