#include "dedloc/averaging/parts_service.h"

#include "dedloc/allreduce/fetch.h"
#include "dedloc/consensus/acceptor.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {

void PartsService::start() {
    handlers_.on_call(allreduce::repair_method, [this](PeerId from, Bytes request) {
        return on_repair(from, std::move(request));
    });
    handlers_.on_call(allreduce::fetch_method, [this](PeerId from, Bytes request) {
        return on_fetch(from, std::move(request));
    });
    handlers_.on_stream(
        allreduce::parts_method,
        [this](std::unique_ptr<p2p::MessageStream> stream) { return on_parts(std::move(stream)); });
    handlers_.on_connection([this](const PeerId& peer, bool connected) {
        if (!connected) exchanges_.peer_gone(peer);
    });
}

Task<Result<Bytes>> PartsService::on_repair(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(environment_.gate(from));
    Result<Bytes> taken = exchanges_.receive_repair(from, request);
    if (!taken) complaints_.add_if_broken(from, environment_.now(), taken.error());
    co_return taken;
}

Task<Result<Bytes>> PartsService::on_fetch(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(environment_.gate(from));
    co_return allreduce::answer_fetch(environment_.parts, request);
}

Task<void> PartsService::on_parts(std::unique_ptr<p2p::MessageStream> owned) {
    if (!environment_.roster.allowed(owned->remote())) co_return;
    co_await exchanges_.serve(std::move(owned));
}

Result<SignedPlan> read_plan(const RoundEnvironment& environment,
                             const PeerId& from,
                             ByteView request,
                             bool needs_state) {
    const auto message = wire::decode<allreduce::Signed>(request);
    if (!message) return consensus::unreadable("plan");
    auto decoded = wire::decode<consensus::RoundPlan>(message->payload);
    if (!decoded) return consensus::unreadable("plan");
    const consensus::RoundPlan& plan = *decoded;
    const consensus::Base& base = environment.ledger.base();
    const bool on_our_state = base.state && plan.state == *base.state;
    if (plan.run != base.run || plan.previous != base.previous || plan.instance != base.instance ||
        (needs_state && !on_our_state))
        return make_error(ErrorKind::conflict, "the plan is not for the step that is open here");
    if (plan.leader != from || !consensus::owns_ballot(base, from, plan.ballot) ||
        !environment.verifier.verify(
            from, consensus::plan_domain, message->payload, message->signature))
        return make_error(ErrorKind::peer_broke_protocol, "the plan is not signed by its leader");
    return SignedPlan{*std::move(decoded), consensus::decision_digest(message->payload)};
}

}  // namespace dedloc::averaging
