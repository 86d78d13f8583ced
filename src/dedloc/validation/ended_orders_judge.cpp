#include "dedloc/validation/ended_orders_judge.h"

#include <algorithm>

namespace dedloc::validation {
namespace {

Error unfounded(std::string_view why) {
    return make_error(ErrorKind::peer_broke_protocol, "a proposal is refused: {}", why);
}

bool has_new(const consensus::Decision& decision,
             const PeerId& subject,
             std::initializer_list<robust::OrderKind> kinds) {
    return std::ranges::any_of(decision.orders, [&](const robust::Order& order) {
        return order.subject == subject && order.from_step == decision.instance.step &&
               std::ranges::find(kinds, order.kind) != kinds.end();
    });
}

}  // namespace

std::vector<robust::Order> EndedOrdersJudge::orders_for(const consensus::Base& base,
                                                        const consensus::Decision& decision) {
    robust::Orders orders(others_.orders_for(base, decision));
    for (const consensus::Voter& voter : base.voters) orders.forget_vouch(voter.peer);
    return orders.list();
}

Task<Result<void>> EndedOrdersJudge::check(std::shared_ptr<const consensus::Decision> decision,
                                           robust::OrderChanges changes,
                                           PeerId proposer) {
    using robust::OrderKind;
    for (const robust::Order& order : changes.ended) {
        const bool founded =
            order.kind == OrderKind::probation
                ? has_new(*decision, order.subject, {OrderKind::vouch, OrderKind::ban})
                : (ledger_.base().is_voter(order.subject) &&
                   order.offence != robust::Offence::mistaken) ||
                      has_new(*decision,
                              order.subject,
                              {OrderKind::probation, OrderKind::ban, OrderKind::eliminate});
        if (!founded) co_return unfounded("an order ends without a reason");
    }
    changes.ended.clear();
    Result<void> judged =
        co_await others_.check(std::move(decision), std::move(changes), std::move(proposer));
    co_return judged;
}

}  // namespace dedloc::validation
