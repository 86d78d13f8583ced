#include "dedloc/collab/order_news.h"

#include "dedloc/robust/orders.h"

namespace dedloc::collab {

void OrderNews::tell(const robust::OrderChanges& changes) {
    for (const robust::Order& order : changes.added) tell_of_new(order);
    for (const robust::Order& order : changes.ended) tell_of_ended(order);
}

void OrderNews::tell_of_new(const robust::Order& order) {
    // Nobody need know that a peer is no newcomer; of persons others tell.
    if (order.kind == robust::OrderKind::vouch || robust::is_of_person(order.kind)) return;
    teller_.tell(events::OrderGiven{.order = std::string(to_string(order.kind)),
                                    .offence = std::string(to_string(order.offence)),
                                    .evidence = order.evidence.hex(),
                                    .about_us = order.subject == us_},
                 order.subject,
                 in_words(order));
    const consensus::Base& base = ledger_.base();
    if (base.orders.barring(order.subject, base.instance.step) != nullptr)
        membership_.expel(order.subject);
}

void OrderNews::tell_of_ended(const robust::Order& order) {
    if (order.kind != robust::OrderKind::probation) return;
    teller_.tell(events::OrderEnded{.order = std::string(to_string(order.kind))},
                 order.subject,
                 fmt::format("{} computed rightly again: what it brings counts as everybody's",
                             order.subject == us_ ? "this peer" : name_of(order.subject)));
}

// The name by which it calls itself, for words that go to other machines.
std::string OrderNews::own_word_of(const PeerId& peer) const {
    const membership::KnownPeer* const known = membership_.find(peer);
    return known == nullptr || known->status.name.empty() ? peer.short_text() : known->status.name;
}

// Says what this peer can do about it, where it is the one.
std::string OrderNews::in_words(const robust::Order& order) const {
    if (order.subject != us_)
        return fmt::format("{} is {}", name_of(order.subject), robust::in_words(order));
    if (order.kind != robust::OrderKind::probation)
        return fmt::format("this peer is {}", robust::in_words(order));
    return fmt::format(
        "this peer is {}. Look at its data (the same files, the same preparation?), its libraries "
        "and its memory; it takes part again when it has computed three contributions of others "
        "rightly, and others three of its own",
        robust::in_words(order));
}

std::string OrderNews::why_kept_out(const PeerId& peer) const {
    if (!ledger_.started()) return {};
    const robust::Order* const order = ledger_.base().barring(peer);
    if (order == nullptr) return {};
    return fmt::format("{} is {}; it does not come back with the same key",
                       peer == us_ ? "this peer" : own_word_of(peer),
                       robust::in_words(*order));
}

}  // namespace dedloc::collab
