#include "dedloc/admission/revocation_judge.h"

#include <algorithm>

#include "dedloc/admission/admission_message.h"
#include "dedloc/wire/message.h"

namespace dedloc::admission {
namespace {

constexpr Duration evidence_timeout = 3s;  // of a proposer, which has it at hand

bool is_revocation(const robust::Order& order) { return order.kind == robust::OrderKind::revoke; }

}  // namespace

std::vector<robust::Order> RevocationJudge::orders_for(const consensus::Base& base,
                                                       const consensus::Decision& decision) {
    robust::Orders orders(others_.orders_for(base, decision));
    for (const auto& [evidence, revocation] : authorizer_->revocations()) {
        if (orders.revoking(revocation.person) != nullptr) continue;
        robust::Order order;
        order.kind = robust::OrderKind::revoke;
        order.offence = robust::Offence::revoked;
        order.person = revocation.person;
        order.from_step = decision.instance.step;
        order.until_step = robust::for_good;
        order.evidence = evidence;
        (void)orders.add(std::move(order));  // no room: members refuse the person all the same
    }
    return orders.list();
}

Task<Result<void>> RevocationJudge::check(std::shared_ptr<const consensus::Decision> decision,
                                          robust::OrderChanges changes,
                                          PeerId proposer) {
    std::vector<robust::Order> revocations;
    std::ranges::copy_if(changes.added, std::back_inserter(revocations), is_revocation);
    std::erase_if(changes.added, is_revocation);
    for (robust::Order& order : revocations)
        DEDLOC_CO_TRY_VOID(co_await check_revocation(std::move(order), proposer));
    if (changes.empty()) co_return Result<void>();
    co_return co_await others_.check(std::move(decision), std::move(changes), std::move(proposer));
}

Task<Result<void>> RevocationJudge::check_revocation(robust::Order order, PeerId proposer) {
    if (!authorizer_->has_revocation(order.evidence)) {
        std::string method = revoked_method;
        Bytes question = wire::encode(RevocationsMessage{});
        const TimePoint deadline = host_.clock().now() + evidence_timeout;
        auto answer =
            co_await host_.call(proposer, std::move(method), std::move(question), deadline);
        if (!answer) co_return std::move(answer).error();
        DEDLOC_CO_TRY(const RevocationsMessage shown, wire::decode<RevocationsMessage>(*answer));
        for (const Bytes& revocation : shown.revocations) (void)authorizer_->revoke(revocation);
    }
    if (authorizer_->says_revocation(order.evidence, order.person)) co_return Result<void>();
    co_return make_error(ErrorKind::peer_broke_protocol,
                         "an order revokes the admission of {}, and no organiser says so",
                         order.person);
}

}  // namespace dedloc::admission
