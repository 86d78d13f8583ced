// What others ask of this peer in a round, at any time.

#include "dedloc/averaging/round.h"
#include "dedloc/runtime/deadline.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

// Exchanges of older plans that are kept so that slower members can still read from us.
constexpr std::size_t exchanges_max = 6;

}  // namespace

void RoundEngine::register_handlers() {
    handlers_.on_call(announce_method, [this](PeerId from, Bytes request) {
        return on_announce(from, std::move(request));
    });
    handlers_.on_call(plan_method, [this](PeerId from, Bytes request) {
        return on_plan(from, std::move(request));
    });
    handlers_.on_call(repair_method, [this](PeerId from, Bytes request) {
        return on_repair(from, std::move(request));
    });
    handlers_.on_call(prepare_method, [this](PeerId from, Bytes request) {
        return on_prepare(from, std::move(request));
    });
    handlers_.on_call(propose_method, [this](PeerId from, Bytes request) {
        return on_propose(from, std::move(request));
    });
    handlers_.on_call(certificate_method, [this](PeerId from, Bytes request) {
        return on_certificate(from, std::move(request));
    });
    handlers_.on_call(certificates_method, [this](PeerId from, Bytes request) {
        return on_certificates(from, std::move(request));
    });
    handlers_.on_call(fetch_method, [this](PeerId from, Bytes request) {
        return on_fetch(from, std::move(request));
    });
    handlers_.on_stream(parts_method, [this](std::unique_ptr<p2p::MessageStream> stream) {
        return on_parts(std::move(stream));
    });
}

Ok RoundEngine::gate(const PeerId& from) const {
    if (context_.directory.allowed(from)) return {};
    return make_error(ErrorKind::denied, "say hello first: this run does not know you");
}

Task<Result<Bytes>> RoundEngine::on_announce(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(gate(from));
    DEDLOC_CO_TRY(Announce announce, wire::decode<Announce>(request));
    const Base& base = context_.ledger.base();
    AnnounceReply reply;
    // Another peer had the new state sooner than we: it need not ask twice.
    const TimePoint patience = context_.now() + context_.options.call_timeout / 2;
    while (announce.previous == base.previous && !base.state && context_.now() < patience)
        co_await context_.node.clock.sleep_for(5ms);
    if (announce.previous != base.previous) {
        reply.certificates = voter_->certificates_after(announce.previous);
        const bool foreign = reply.certificates.empty();
        reply.verdict = foreign ? Verdict::i_am_behind : Verdict::you_are_behind;
        if (foreign) context_.directory.behind(from);
        co_return wire::encode(reply);
    }
    if (!base.state) {  // still computing the state; ask again soon
        co_return wire::encode(reply);
    }
    if (announce.state != *base.state) {
        reply.verdict = Verdict::refused;
        reply.reason = "you stand on another state; load ours";
        co_return wire::encode(reply);
    }
    if (const Ok sound = check_input(
            announce.input, context_.options.vector_count, context_.options.samples_max);
        !sound) {
        reply.verdict = Verdict::refused;
        reply.reason = sound.error().message();
        co_return wire::encode(reply);
    }
    const auto leader = pick_leader(base);
    if (leader && *leader != context_.me()) {
        reply.verdict = Verdict::redirect;
        reply.leader = *leader;
        // Kept all the same: if that leader fails, we know who is there.
    }
    const bool brings_something = !announce.input.is_empty();
    if (announced_.size() < members_max || announced_.contains(from)) {
        announced_[from] = Announced{std::move(announce), context_.now()};
        not_waited_for_.erase(from);
    }
    if (brings_something) {
        context_.directory.round_wanted();
        set_wanted(true);
    }
    changed_.pulse();
    co_return wire::encode(reply);
}

std::shared_ptr<Exchange> RoundEngine::find_exchange(const Digest& plan) const {
    const auto found = exchanges_.find(plan);
    return found == exchanges_.end() ? nullptr : found->second;
}

std::shared_ptr<Exchange> RoundEngine::begin_exchange(Plan plan, Digest digest) {
    auto exchange = std::make_shared<Exchange>(context_, std::move(plan), digest, input_);
    exchanges_[digest] = exchange;
    exchange_order_.push_back(digest);
    while (exchange_order_.size() > exchanges_max) {
        const auto old = exchanges_.find(exchange_order_.front());
        exchange_order_.pop_front();
        if (old == exchanges_.end()) continue;
        auto ending = [](std::shared_ptr<Exchange> ended) -> Task<void> { co_await ended->stop(); };
        scope_.spawn("end an exchange", ending(old->second));
        exchanges_.erase(old);
    }
    exchange->start();
    changed_.pulse();
    return exchange;
}

Task<Result<Bytes>> RoundEngine::on_plan(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(gate(from));
    DEDLOC_CO_TRY(const Signed message, wire::decode<Signed>(request));
    DEDLOC_CO_TRY(Plan plan, wire::decode<Plan>(message.payload));
    const Base& base = context_.ledger.base();
    if (plan.run != base.run || plan.previous != base.previous || plan.instance != base.instance ||
        !base.state || plan.state != *base.state)
        co_return make_error(ErrorKind::conflict, "the plan is not for the step that is open here");
    if (plan.leader != from || !owns_ballot(base, from, plan.ballot) ||
        !context_.verifier.verify(from, plan_domain, message.payload, message.signature))
        co_return make_error(ErrorKind::peer_broke_protocol,
                             "the plan is not signed by its leader");
    DEDLOC_CO_TRY_VOID(check_plan(plan, context_.options));
    const Digest digest = decision_digest(message.payload);
    if (find_exchange(digest)) co_return Bytes{};
    const Announce mine = own_announcement(base);
    bool named = false;
    for (const PlanMember& member : plan.members)
        if (member.peer == context_.me())
            named = member.incarnation == mine.incarnation && member.input == mine.input;
    if (!named)
        co_return make_error(ErrorKind::conflict, "the plan names another contribution than ours");
    (void)begin_exchange(std::move(plan), digest);
    co_return Bytes{};
}

Task<Result<Bytes>> RoundEngine::on_repair(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(gate(from));
    DEDLOC_CO_TRY(const Signed message, wire::decode<Signed>(request));
    DEDLOC_CO_TRY(const Repair repair, wire::decode<Repair>(message.payload));
    const auto exchange = find_exchange(repair.plan);
    if (!exchange) co_return make_error(ErrorKind::not_found, "no such plan here");
    if (exchange->plan().leader != from || repair.parts.size() != repair.owners.size() ||
        !context_.verifier.verify(from, repair_domain, message.payload, message.signature))
        co_return make_error(ErrorKind::peer_broke_protocol, "the repair is not its leader's");
    exchange->add_repair(repair);
    co_return Bytes{};
}

Task<Result<Bytes>> RoundEngine::on_prepare(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(gate(from));
    DEDLOC_CO_TRY(Prepare prepare, wire::decode<Prepare>(request));
    const ConsensusReply reply = co_await voter_->on_prepare(from, std::move(prepare));
    co_return wire::encode(reply);
}

Task<Result<Bytes>> RoundEngine::on_propose(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(gate(from));
    DEDLOC_CO_TRY(Propose propose, wire::decode<Propose>(request));
    const ConsensusReply reply = co_await voter_->on_propose(from, std::move(propose));
    co_return wire::encode(reply);
}

bool RoundEngine::take_certificate(const PeerId& from, const Bytes& certificate) {
    const auto accepted = context_.ledger.accept(certificate);
    if (!accepted && (accepted.error().kind() == ErrorKind::not_found ||
                      accepted.error().kind() == ErrorKind::conflict))
        context_.directory.behind(from);
    return accepted.has_value();
}

void RoundEngine::take_certificates(const PeerId& from, const std::vector<Bytes>& certificates) {
    for (const Bytes& certificate : certificates)
        if (!take_certificate(from, certificate)) return;
}

Task<Result<Bytes>> RoundEngine::on_certificate(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(gate(from));
    (void)take_certificate(from, request);
    co_return Bytes{};
}

Task<Result<Bytes>> RoundEngine::on_certificates(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(gate(from));
    DEDLOC_CO_TRY(const CertificatesRequest asked, wire::decode<CertificatesRequest>(request));
    CertificatesReply reply;
    if (!context_.ledger.started())
        co_return make_error(ErrorKind::not_found, "this peer knows no certificate yet");
    if (asked.only_latest) {
        reply.certificates.push_back(context_.ledger.newest());
    } else {
        reply.certificates = voter_->certificates_after(asked.previous);
        reply.known = context_.ledger.after(asked.previous, 0).has_value();
    }
    co_return wire::encode(reply);
}

Task<Result<Bytes>> RoundEngine::on_fetch(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(gate(from));
    co_return answer_fetch(context_.parts, request);
}

Task<void> RoundEngine::on_parts(std::unique_ptr<p2p::MessageStream> owned) {
    std::shared_ptr<p2p::MessageStream> stream = std::move(owned);
    if (!context_.directory.allowed(stream->remote())) co_return;
    const TimePoint deadline = context_.now() + 5s;
    Task<Result<std::optional<SharedBytes>>> reading = stream->read();
    auto first = co_await runtime::with_deadline(
        context_.node.clock, deadline, "a parts stream's header", std::move(reading));
    if (!first || !first->has_value()) co_return;
    const auto header = wire::decode<PartsHeader>(**first);
    if (!header) co_return;
    const TimePoint begun = context_.now();
    // The member may have heard of the plan before we did.
    std::shared_ptr<Exchange> exchange = find_exchange(header->plan);
    while (!exchange && context_.now() < deadline) {
        co_await pause(100ms);
        exchange = find_exchange(header->plan);
    }
    if (!exchange) {
        Error error = make_error(ErrorKind::not_found, "no such plan here");
        (void)co_await stream->fail(std::move(error));
        co_return;
    }
    co_await exchange->serve(stream, header->repair, begun);
}

}  // namespace dedloc::averaging
