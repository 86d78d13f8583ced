#include "dedloc/robust/orders.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

namespace dedloc::robust {
namespace {

auto key_of(const Order& order) { return std::tie(order.subject, order.person, order.kind); }

bool by_key(const Order& a, const Order& b) { return key_of(a) < key_of(b); }

bool keeps_out(const Order& order) {
    return order.kind == OrderKind::ban || order.kind == OrderKind::eliminate;
}

Error unsound(std::string_view why) {
    return make_error(ErrorKind::peer_broke_protocol, "orders are refused: {}", why);
}

}  // namespace

std::string_view to_string(OrderKind kind) {
    switch (kind) {
        case OrderKind::ban:
            return "banned";
        case OrderKind::eliminate:
            return "eliminated";
        case OrderKind::probation:
            return "on probation";
        case OrderKind::revoke:
            return "revoked";
        case OrderKind::admit:
            return "admitted";
        case OrderKind::vouch:
            return "known";
    }
    return "kept out";
}

std::string_view to_string(Offence offence) {
    switch (offence) {
        case Offence::wrong_gradient:
            return "it computes something else than others do";
        case Offence::false_accusation:
            return "it accused a peer that others find right";
        case Offence::two_commitments:
            return "it committed to two contributions in one round";
        case Offence::wrong_reduction:
            return "it reduced a part wrongly";
        case Offence::false_row:
            return "it told numbers that its contribution contradicts";
        case Offence::double_vote:
            return "it voted for two decisions";
        case Offence::unjudged:
            return "nobody can show what it sent, or got";
        case Offence::withheld:
            return "it kept back what a round needs of it";
        case Offence::newcomer:
            return "its first contributions are still to be checked";
        case Offence::revoked:
            return "its token was taken back";
        case Offence::none:
            return "no reproach";
        case Offence::mistaken:
            return "it computes something else than two others do, perhaps by mistake";
    }
    return "it broke a rule";
}

bool is_of_person(OrderKind kind) { return kind == OrderKind::revoke || kind == OrderKind::admit; }

const Order* Orders::barring(const PeerId& peer, std::uint64_t step) const {
    for (const Order& order : list_)
        if (order.subject == peer && keeps_out(order) && in_force(order, step)) return &order;
    return nullptr;
}

const Order* Orders::revoking(std::string_view person) const {
    for (const Order& order : list_)
        if (order.kind == OrderKind::revoke && order.person == person) return &order;
    return nullptr;
}

const Order* Orders::admitting(std::string_view person) const {
    for (const Order& order : list_)
        if (order.kind == OrderKind::admit && order.person == person) return &order;
    return nullptr;
}

const Order* Orders::vouching(const PeerId& peer, std::uint64_t step) const {
    for (const Order& order : list_)
        if (order.subject == peer && order.kind == OrderKind::vouch && in_force(order, step))
            return &order;
    return nullptr;
}

const Order* Orders::readmission_of(const PeerId& peer, std::uint64_t step) const {
    const Order* const vouch = vouching(peer, step);
    return vouch != nullptr && vouch->offence == Offence::mistaken ? vouch : nullptr;
}

const Order* Orders::probation_of(const PeerId& peer, std::uint64_t step) const {
    for (const Order& order : list_)
        if (order.subject == peer && order.kind == OrderKind::probation && in_force(order, step))
            return &order;
    return nullptr;
}

const Order* Orders::mistake_of(const PeerId& peer, std::uint64_t step) const {
    const Order* const probation = probation_of(peer, step);
    return probation != nullptr && probation->offence == Offence::mistaken ? probation : nullptr;
}

bool Orders::on_probation(const PeerId& peer, std::uint64_t step) const {
    return probation_of(peer, step) != nullptr;
}

bool Orders::add(Order order) {
    if (is_of_person(order.kind))
        std::erase_if(list_, [&order](const Order& other) {
            return other.person == order.person && other.kind != order.kind;
        });
    // A peer that has erred needs a new vouch, and a peer that is vouched for is trusted.
    if (keeps_out(order) || order.kind == OrderKind::probation)
        std::erase_if(list_, [&order](const Order& other) {
            return other.subject == order.subject && other.kind == OrderKind::vouch;
        });
    if (order.kind == OrderKind::vouch) {
        if (vouches() >= vouches_max) return false;
        release(order.subject);
    }
    const auto place = std::ranges::lower_bound(list_, order, by_key);
    if (place != list_.end() && key_of(*place) == key_of(order)) {
        if (place->until_step >= order.until_step) return false;
        *place = std::move(order);
        return true;
    }
    if (list_.size() >= orders_max) return false;
    list_.insert(place, std::move(order));
    return true;
}

void Orders::release(const PeerId& peer) {
    std::erase_if(list_, [&peer](const Order& order) {
        return order.subject == peer && order.kind == OrderKind::probation;
    });
}

std::size_t Orders::vouches() const {
    return static_cast<std::size_t>(std::ranges::count(list_, OrderKind::vouch, &Order::kind));
}

void Orders::forget_vouch(const PeerId& peer) {
    std::erase_if(list_, [&peer](const Order& order) {
        return order.subject == peer && order.kind == OrderKind::vouch &&
               order.offence != Offence::mistaken;
    });
}

void Orders::forget_before(std::uint64_t step) {
    std::erase_if(list_, [step](const Order& order) { return !in_force(order, step); });
}

Ok check_orders(std::span<const Order> orders) {
    if (orders.size() > orders_max) return unsound("there are too many");
    for (const Order& order : orders) {
        if (order.kind > last_kind || order.offence > last_offence)
            return unsound("one is of no kind that is known here");
        const bool of_person = is_of_person(order.kind);
        if (order.subject.is_empty() != of_person || order.person.empty() == of_person ||
            order.person.size() > subject_letters_max)
            return unsound("one names nobody");
        if (order.until_step <= order.from_step) return unsound("one ends before it begins");
    }
    const auto unsorted = std::ranges::adjacent_find(
        orders, [](const Order& a, const Order& b) { return !by_key(a, b); });
    if (unsorted != orders.end()) return unsound("they are not in order");
    return {};
}

namespace {

const Order* find_alike(std::span<const Order> list, const Order& wanted) {
    const auto place = std::ranges::lower_bound(list, wanted, by_key);
    return place != list.end() && key_of(*place) == key_of(wanted) ? &*place : nullptr;
}

// One about a person is replaced by its contrary.
bool is_replaced(const Order& order, std::span<const Order> after) {
    if (!is_of_person(order.kind)) return false;
    Order contrary = order;
    contrary.kind = order.kind == OrderKind::revoke ? OrderKind::admit : OrderKind::revoke;
    return find_alike(after, contrary) != nullptr;
}

bool may_end(OrderKind kind) { return kind == OrderKind::probation || kind == OrderKind::vouch; }

}  // namespace

Result<OrderChanges> changes_between(std::span<const Order> before,
                                     std::span<const Order> after,
                                     std::uint64_t step) {
    DEDLOC_TRY_VOID(check_orders(after));
    OrderChanges changes;
    for (const Order& order : before) {
        const Order* const now = find_alike(after, order);
        if (!in_force(order, step)) continue;
        if (now != nullptr && now->until_step >= order.until_step) continue;
        if (now == nullptr && may_end(order.kind))
            changes.ended.push_back(order);
        else if (!may_end(order.kind) && !is_replaced(order, after))
            return unsound("one that is in force is gone");
    }
    for (const Order& order : after) {
        if (!in_force(order, step)) return unsound("one has run out");
        const Order* const earlier = find_alike(before, order);
        if (earlier != nullptr && *earlier == order) continue;
        if (order.from_step != step) return unsound("a new one begins at another step");
        changes.added.push_back(order);
    }
    return changes;
}

std::string in_words(const Order& order) {
    const std::string until = order.until_step == for_good
                                  ? std::string()
                                  : fmt::format(" until step {}", order.until_step);
    return fmt::format("{} since step {}{}: {}",
                       to_string(order.kind),
                       order.from_step,
                       until,
                       to_string(order.offence));
}

}  // namespace dedloc::robust
