#include "dedloc/averaging/pending_orders.h"

#include <algorithm>

#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

using robust::Order;
using robust::OrderKind;

// Evidence may come over a slow link.
constexpr Duration evidence_timeout = 10s;
constexpr std::uint64_t pending_steps_max = 20;

Error unjust(std::string_view why) {
    return make_error(ErrorKind::peer_broke_protocol, "orders are refused: {}", why);
}

// For how long an order of this kind may hold.
Ok check_length(const Order& order) {
    const std::uint64_t steps = order.until_step - order.from_step;
    const bool fair = order.kind == OrderKind::ban         ? order.until_step == robust::for_good
                      : order.kind == OrderKind::eliminate ? steps <= eliminated_for_steps
                      : order.kind != OrderKind::probation ? true
                      : order.offence == robust::Offence::mistaken
                          ? order.until_step == robust::for_good
                          : steps <= withheld_for_steps;
    if (fair) return {};
    return unjust("one holds longer or shorter than it may");
}

// Nobody needs it, or the peer has erred since its reason was found.
bool is_idle_vouch(const consensus::Base& base, const Order& vouch) {
    const std::uint64_t step = base.instance.step;
    const auto erred = [&](const Order& other) {
        return other.subject == vouch.subject && other.kind == OrderKind::probation &&
               other.from_step >= vouch.from_step;
    };
    return base.is_voter(vouch.subject) || base.orders.vouching(vouch.subject, step) != nullptr ||
           std::ranges::any_of(base.orders.list(), erred);
}

bool same_charge(const Order& a, const Order& b) {
    return a.subject == b.subject && a.kind == b.kind && a.offence == b.offence;
}

}  // namespace

ProposedOrder propose_order(const consensus::Base& base,
                            const PeerId& subject,
                            OrderKind kind,
                            robust::Offence offence,
                            const Evidence& evidence) {
    ProposedOrder result;
    result.evidence = wire::encode(evidence);
    const std::uint64_t step = base.instance.step;
    result.order.kind = kind;
    result.order.offence = offence;
    result.order.subject = subject;
    result.order.from_step = step;
    result.order.until_step = robust::for_good;
    if (kind == OrderKind::eliminate) result.order.until_step = step + eliminated_for_steps;
    if (kind == OrderKind::probation) result.order.until_step = step + withheld_for_steps;
    result.order.evidence = security::sha256(result.evidence);
    return result;
}

EvidenceContext evidence_context(const RoundEnvironment& environment, const PeerId& subject) {
    const consensus::Base& base = environment.ledger.base();
    return {environment.verifier,
            environment.options.clip_rule,
            base.voters,
            environment.node.workers,
            base.orders,
            environment.ledger.voted_lately(subject)};
}

PendingOrders::PendingOrders(const RoundEnvironment& environment, EvidenceStore& store)
    : environment_(environment),
      store_(store),
      handlers_(environment.host),
      scope_(environment.node.executor) {}

void PendingOrders::start() {
    handlers_.on_call(order_method, [this](PeerId from, Bytes request) {
        return on_order(from, std::move(request));
    });
}

Task<void> PendingOrders::stop() {
    co_await handlers_.stop();
    co_await scope_.stop();
}

bool PendingOrders::keep(const Order& order) {
    const auto same = [&](const Order& other) { return same_charge(order, other); };
    if (pending_.size() >= pending_max || std::ranges::any_of(pending_, same)) return false;
    pending_.push_back(order);
    return true;
}

void PendingOrders::drop(const Order& order) {
    std::erase_if(pending_, [&](const Order& other) { return same_charge(order, other); });
}

void PendingOrders::add(ProposedOrder proposed) {
    if (environment_.options.bugs.hides_evidence) return;
    if (proposed.order.kind == OrderKind::vouch) {
        (void)store_.put(std::move(proposed.evidence));
        scope_.spawn("prove a vouch", add_vouch(std::move(proposed.order)));
        return;
    }
    if (!keep(proposed.order)) return;
    forget_settled();
    proved_.insert(key_of(proposed.order));
    environment_.listener.order_proved(proposed.order, proposed.evidence);
    (void)store_.put(std::move(proposed.evidence));
    tell_voters(proposed.order);
}

// Voters that found the subject right may vote no more, or it has erred meanwhile. A vouch is not
// urgent, and one that convinces nobody would cost a round.
Task<void> PendingOrders::add_vouch(Order vouch) {
    const Result<void> proved = co_await prove(vouch, environment_.me(), Purpose::proposal);
    if (!proved || !keep(vouch)) co_return;
    forget_settled();
    tell_voters(vouch);
}

void PendingOrders::tell_voters(const Order& order) {
    const Bytes message = wire::encode(order);
    for (const consensus::Voter& voter : environment_.ledger.base().voters)
        if (voter.peer != environment_.me() && voter.peer != order.subject)
            scope_.spawn("tell of evidence", tell(voter.peer, message));
}

Task<void> PendingOrders::tell(PeerId peer, Bytes message) {
    const TimePoint deadline = environment_.now() + evidence_timeout;
    (void)co_await environment_.host.call(peer, order_method, std::move(message), deadline);
}

Task<Result<Bytes>> PendingOrders::on_order(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(environment_.gate(from));
    auto order = wire::decode<Order>(request);
    if (!order) co_return consensus::unreadable("charge");
    const Result<void> taken = co_await take(*std::move(order), from);
    if (!taken) co_return taken.error();
    co_return Bytes{};
}

// One at a time of a peer, so that nobody keeps our processors busy.
Task<Result<void>> PendingOrders::take(Order order, PeerId from) {
    forget_settled();
    const auto same = [&](const Order& other) { return same_charge(order, other); };
    if (std::ranges::any_of(pending_, same)) co_return Result<void>();
    if (!proposing_.insert(from).second)
        co_return make_error(ErrorKind::overloaded, "one charge at a time, please");
    Result<void> proved = co_await prove(order, from, Purpose::proposal);
    proposing_.erase(from);
    if (proved) (void)keep(order);
    co_return proved;
}

Task<Result<void>> PendingOrders::prove(Order order, PeerId from, Purpose purpose) {
    DEDLOC_CO_TRY_VOID(check_length(order));
    const Proved proposed = key_of(order);
    // Our own orders are looked at each time: nobody else would tell us that one convinces
    // them no more.
    const bool known =
        from != environment_.me() && (order.kind != OrderKind::vouch || purpose == Purpose::vote);
    if (known && proved_.contains(proposed) && store_.find(order.evidence))
        co_return Result<void>();
    const consensus::PlantedBugs& bugs = environment_.options.bugs;
    if (bugs.orders_unproved || (bugs.orders_falsely && from == environment_.me()))
        co_return Result<void>();
    const TimePoint deadline = environment_.now() + evidence_timeout;
    const auto evidence = co_await store_.fetch(from, order.evidence, deadline);
    // A peer that gives an order has what proves it.
    if (!evidence && evidence.error().kind() == ErrorKind::not_found)
        co_return unjust("nothing proves one of them");
    if (!evidence) co_return evidence.error();
    EvidenceContext context = evidence_context(environment_, order.subject);
    if (purpose == Purpose::proposal)
        context.voted_lately = environment_.ledger.remembers_voter(order.subject);
    auto work = [rules = &rules_, order, bytes = *evidence, context]() -> Result<void> {
        return rules->check(order, bytes, context);
    };
    Result<void> checked = co_await environment_.node.workers.run(std::move(work));
    if (!checked) co_return checked;
    const bool is_new = proved_.insert(proposed).second;
    if (proved_.size() > pending_max * 4) proved_.erase(proved_.begin());
    if (is_new) environment_.listener.order_proved(order, to_bytes(**evidence));
    co_return Result<void>();
}

// Forgets what is ordered already, or of no use any more: evidence of long ago must not come back.
void PendingOrders::forget_settled() {
    const consensus::Base& base = environment_.ledger.base();
    // Others need not be convinced by what some voters said.
    const bool others_vote = proved_by_ != base.voters;
    if (others_vote) proved_.clear();
    proved_by_ = base.voters;
    // On another branch others voted, and whoever was found right here will be there, too.
    if (branch_ != base.instance.branch)
        std::erase_if(pending_, [](const Order& order) { return order.kind == OrderKind::vouch; });
    branch_ = base.instance.branch;
    const std::uint64_t step = base.instance.step;
    std::erase_if(pending_, [&](const Order& order) {
        if (base.orders.barring(order.subject, step) != nullptr || !in_force(order, step))
            return true;
        if (order.kind == OrderKind::probation)
            return base.orders.on_probation(order.subject, step) ||
                   order.from_step + pending_steps_max < step;
        return order.kind == OrderKind::vouch && is_idle_vouch(base, order);
    });
    if (others_vote && !pending_.empty()) scope_.spawn("prove orders again", prove_again(pending_));
}

Task<void> PendingOrders::prove_again(std::vector<Order> orders) {
    for (const Order& order : orders) {
        const Result<void> proved = co_await prove(order, environment_.me(), Purpose::proposal);
        if (!proved) drop(order);
    }
}

// A planted liar's: a ban of the first voter that is not this peer, by evidence that is none.
void PendingOrders::propose_falsely(const consensus::Base& base, robust::Orders& orders) const {
    for (const consensus::Voter& voter : base.voters) {
        if (voter.peer == environment_.me() || base.voters.size() < 3) continue;
        Order order;
        order.offence = robust::Offence::wrong_reduction;
        order.subject = voter.peer;
        order.from_step = base.instance.step;
        order.until_step = robust::for_good;
        order.evidence = base.previous;
        (void)orders.add(std::move(order));
        return;
    }
}

std::vector<Order> PendingOrders::orders_for(const consensus::Base& base,
                                             const consensus::Decision& decision) {
    robust::Orders orders(environment_.judge.orders_for(base, decision));
    const std::uint64_t step = decision.instance.step;
    forget_settled();
    for (Order order : pending_) {
        // An order that proves nothing to these voters would stop all that is proposed.
        if (!store_.find(order.evidence) || !proved_.contains(key_of(order))) continue;
        if (order.until_step != robust::for_good)
            order.until_step = step + (order.until_step - order.from_step);
        order.from_step = step;
        (void)orders.add(std::move(order));
    }
    if (environment_.options.bugs.orders_falsely) propose_falsely(base, orders);
    return orders.list();
}

// Evidence that others are to check goes there as a whole.
Task<Result<void>> PendingOrders::check(std::shared_ptr<const consensus::Decision> decision,
                                        robust::OrderChanges changes,
                                        PeerId proposer) {
    robust::OrderChanges elsewhere;
    elsewhere.ended = std::move(changes.ended);
    std::vector<Order> here;
    for (Order& order : changes.added)
        (rules_.knows(order.offence) ? here : elsewhere.added).push_back(std::move(order));
    for (const Order& order : here) {
        Result<void> proved = co_await prove(order, proposer, Purpose::vote);
        // The order convinced us once, or somebody said so: it must not stop all that we propose.
        if (!proved && proposer == environment_.me()) drop(order);
        if (!proved) co_return proved;
    }
    co_return co_await environment_.judge.check(decision, std::move(elsewhere), proposer);
}

}  // namespace dedloc::averaging
