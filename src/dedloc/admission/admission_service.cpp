#include "dedloc/admission/admission_service.h"

#include "dedloc/admission/admission_client.h"
#include "dedloc/wire/message.h"

namespace dedloc::admission {
namespace {

constexpr Duration answer_timeout = 5s;

}  // namespace

AdmissionService::AdmissionService(runtime::Node node,
                                   p2p::Host& host,
                                   std::shared_ptr<TokenAuthorizer> authorizer,
                                   std::shared_ptr<Issuer> issuer,
                                   events::Teller& teller,
                                   Callbacks callbacks)
    : node_(std::move(node)),
      host_(host),
      authorizer_(std::move(authorizer)),
      issuer_(std::move(issuer)),
      teller_(teller),
      callbacks_(std::move(callbacks)),
      handlers_(host),
      scope_(node_.executor) {}

Ok AdmissionService::start(Admitted own) {
    if (issuer_) {
        DEDLOC_TRY(own.token, issuer_->own_token(host_.id()));
        (void)receive_revocations(issuer_->poll());
    }
    authorizer_->set_own(std::move(own.token));
    if (const auto token = wire::decode<admission::Token>(authorizer_->own())) {
        teller_.tell(events::PersonSeen{.person = token->subject},
                     host_.id(),
                     fmt::format("this peer is a device of {}", token->subject));
        if (own.delegation && !issuer_) receive_delegation(*own.delegation, token->subject);
    }
    handlers_.on_call(admission_method, [this](PeerId from, Bytes request) {
        return on_question(from, std::move(request));
    });
    handlers_.on_call(revoked_method, [this](PeerId from, Bytes request) {
        return on_revoked(from, std::move(request));
    });
    scope_.spawn("look after tokens", poll_loop());
    return {};
}

Task<void> AdmissionService::stop() {
    co_await handlers_.stop();
    co_await scope_.stop();
}

Task<Result<Bytes>> AdmissionService::on_question(PeerId from, Bytes request) {
    if (!issuer_)
        co_return make_error(ErrorKind::unsupported,
                             "this peer lets nobody in: ask an organiser of the run");
    DEDLOC_CO_TRY(const AdmissionQuestion question, wire::decode<AdmissionQuestion>(request));
    if (question.run != authorizer_->rules().run)
        co_return make_error(ErrorKind::denied,
                             "the invitation is of run {}, this organiser's is {}",
                             question.run.short_hex(),
                             authorizer_->rules().run.short_hex());
    Result<Issued> issued = question.code.empty()
                                ? issuer_->renew(question.token, from, authorizer_->rules())
                                : issuer_->redeem(question.code, from);
    if (!issued) {
        const std::string& why = issued.error().message();
        teller_.tell(events::AdmissionRefused{}, from, why);
        co_return std::move(issued).error();
    }
    teller_.tell(events::TokenGiven{.person = issued->token.subject},
                 from,
                 fmt::format("{} got a token for {}", issued->token.subject, from.short_text()));
    Admitted answer;
    answer.token = admission::encode_token(issued->token);
    answer.delegation = std::move(issued->delegation);
    answer.now = node_.clock.wall_now();
    co_return wire::encode(answer);
}

Task<Result<Bytes>> AdmissionService::on_revoked(PeerId, Bytes request) {
    DEDLOC_CO_TRY(const RevocationsMessage message, wire::decode<RevocationsMessage>(request));
    if (receive_revocations(message.revocations)) spread();
    RevocationsMessage answer;
    answer.revocations = known_revocations();
    co_return wire::encode(answer);
}

std::vector<Bytes> AdmissionService::known_revocations() const {
    std::vector<Bytes> known;
    for (const auto& [evidence, revocation] : authorizer_->revocations())
        known.push_back(revocation.bytes);
    return known;
}

void AdmissionService::obey(const std::string& person) {
    if (!authorizer_->obey(person)) return;
    tell_revoked(person);
    if (issuer_) issuer_->revoked(person);
    callbacks_.part_from_revoked();
}

void AdmissionService::tell_revoked(const std::string& person) {
    const auto own = wire::decode<admission::Token>(authorizer_->own());
    const bool is_ours = own && own->subject == person;
    teller_.tell(
        events::Revoked{.person = person, .ours = is_ours},
        {},
        fmt::format("the organiser has revoked the admission of {}{}",
                    person,
                    is_ours ? ", whose token this peer has: it takes part no longer" : ""));
    if (is_ours && issuer_ && issuer_->is_delegated()) issuer_.reset();
    if (authorizer_->own_chain_is_revoked()) next_renewal_ = node_.clock.now();
}

// True: there was news. The first that is none of this run ends it.
bool AdmissionService::receive_revocations(const std::vector<Bytes>& revocations) {
    bool is_news = false;
    for (const Bytes& revocation : revocations) {
        const Result<bool> taken = authorizer_->revoke(revocation);
        if (!taken) return is_news;
        if (!*taken) continue;
        is_news = true;
        const auto decoded = wire::decode<admission::Revocation>(revocation);
        if (!decoded) continue;
        tell_revoked(decoded->subject);
        if (issuer_) issuer_->revoked(decoded->subject);
    }
    return is_news;
}

// The revoked are told, too, and so before we part from them.
void AdmissionService::spread() {
    for (const PeerId& member : callbacks_.members()) greet(member);
    callbacks_.part_from_revoked();
}

void AdmissionService::greet(const PeerId& member) {
    if (issuer_) issuer_->met(authorizer_->person(member), member, authorizer_->let_in_by(member));
    scope_.spawn("exchange revocations", exchange_revocations(member));
}

// Both sides ask: the gate of the one that has not let the other in yet refuses the first call.
Task<void> AdmissionService::exchange_revocations(PeerId to) {
    RevocationsMessage message;
    message.revocations = known_revocations();
    std::string method = revoked_method;
    Bytes bytes = wire::encode(message);
    const TimePoint deadline = node_.clock.now() + answer_timeout;
    const PeerId peer = to;
    const auto answer =
        co_await host_.call(std::move(to), std::move(method), std::move(bytes), deadline);
    if (answer) {
        const auto told = wire::decode<RevocationsMessage>(*answer);
        if (told && receive_revocations(told->revocations)) spread();
    }
    // The peer has been told. Its open downloads and streams end here, too.
    if (authorizer_->rules().revoked.contains(authorizer_->person(peer))) host_.disconnect(peer);
}

Task<void> AdmissionService::poll_loop() {
    for (;;) {
        if (issuer_ && receive_revocations(issuer_->poll())) spread();
        const TimePoint now = node_.clock.now();
        const bool is_due = is_renewal_due(authorizer_->own(), node_.clock.wall_now()) ||
                            authorizer_->own_chain_is_revoked();
        if (now >= next_renewal_ && is_due) {
            next_renewal_ = now + renewal_pause;
            co_await renew();
        }
        co_await node_.clock.sleep_for(admission_look_interval);
    }
}

Task<void> AdmissionService::renew() {
    if (issuer_ && !issuer_->is_delegated()) {
        receive_own_token();
        co_return;
    }
    std::string why = "no organiser is in reach";
    for (const PeerId& organiser : callbacks_.organisers()) {
        AdmissionQuestion question;
        question.run = authorizer_->rules().run;
        question.token = authorizer_->own();
        const TimePoint deadline = node_.clock.now() + answer_timeout;
        auto admitted = co_await ask_admission(host_, organiser, std::move(question), deadline);
        if (admitted) {
            receive_token(*admitted);
            renewal_failed_ = false;
            co_return;
        }
        why = admitted.error().message();
    }
    // A co-organiser helps itself until the organiser is there, who extends its right as well.
    if (issuer_) {
        receive_own_token();
        co_return;
    }
    if (std::exchange(renewal_failed_, true)) co_return;
    teller_.tell(events::RenewalFailed{},
                 {},
                 fmt::format("this peer's token could not be renewed: {}; it is tried again", why));
}

void AdmissionService::receive_own_token() {
    if (auto own = issuer_->own_token(host_.id())) authorizer_->set_own(*std::move(own));
}

void AdmissionService::receive_token(const Admitted& admitted) {
    const auto token = wire::decode<admission::Token>(admitted.token);
    if (!token) return;
    authorizer_->set_own(admitted.token);
    if (const Ok kept = keep_token(node_.disk, admitted); !kept)
        teller_.tell(events::RenewalFailed{}, {}, kept.error().message());
    if (admitted.delegation) receive_delegation(*admitted.delegation, token->subject);
}

void AdmissionService::receive_delegation(const admission::Delegation& delegation,
                                          const std::string& name) {
    if (auto issuer = callbacks_.make_issuer(delegation, name)) issuer_ = std::move(issuer);
}

}  // namespace dedloc::admission
