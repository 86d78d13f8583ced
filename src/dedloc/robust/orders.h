// Orders: what certificates say about peers beside the average. They are carried from decision to
// decision like the next voters, so the newest one alone tells who is kept out.
//
//   ban         out for good: computed something else than the rules, and it is proved
//   eliminate   one of two who contradict each other where nobody can judge: out for some steps
//   probation   takes part, but weighs nothing, until its contributions have been checked
//   revoke      a person's token is taken back (the subject is the token's)
//   admit       a person is let in; an order to admit and one to revoke replace each other
//   vouch       a voter that left: when it is back, it is no newcomer; or, `mistaken`, a peer that
//               erred and computes rightly again: the next time it is banned
//
// Further kinds are appended. Evidence is the SHA-256 of bytes by which anybody can tell that the
// order is right; what they are depends on the offence.
//
// Thread: any; pure. Bounds: orders_max, so that a list takes at most 64 kB.

#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/base/result.h"

namespace dedloc::robust {

inline constexpr std::size_t orders_max = 256;          // in force at a time
inline constexpr std::size_t vouches_max = 128;         // of them: bans always find room
inline constexpr std::size_t subject_letters_max = 64;  // of a person
inline constexpr std::uint64_t for_good = std::numeric_limits<std::uint64_t>::max();

enum class OrderKind : std::uint32_t {
    ban = 0,
    eliminate = 1,
    probation = 2,
    revoke = 3,
    admit = 4,
    vouch = 5,
};
inline constexpr OrderKind last_kind = OrderKind::vouch;
// The offence, in the order's words; evidence says the rest.
enum class Offence : std::uint32_t {
    wrong_gradient = 0,  // two others, or more, compute something else
    false_accusation = 1,
    two_commitments = 2,  // in one round
    wrong_reduction = 3,  // as an owner
    false_row = 4,
    double_vote = 5,
    unjudged = 6,  // an input that neither its author nor the owner shows
    withheld = 7,  // nonces, rows or checks, as several others say
    newcomer = 8,
    revoked = 9,
    none = 10,      // of an order that is no reproach
    mistaken = 11,  // as wrong_gradient, where nothing says that it was meant; of a vouch: it was
};

inline constexpr Offence last_offence = Offence::mistaken;

std::string_view to_string(OrderKind kind);
std::string_view to_string(Offence offence);

struct Order {
    OrderKind kind = OrderKind::ban;
    Offence offence = Offence::wrong_gradient;
    PeerId subject;      // a peer …
    std::string person;  // … or, of `revoke` and `admit`, the subject of a token
    std::uint64_t from_step = 0;
    std::uint64_t until_step = 0;  // the first step without it
    Digest evidence;

    friend bool operator==(const Order&, const Order&) = default;
    DEDLOC_FIELDS(kind, offence, subject, person, from_step, until_step, evidence)
};

// In force at that step: from_step is for people, as orders bind from the step after theirs.
inline bool in_force(const Order& order, std::uint64_t step) { return step < order.until_step; }
bool is_of_person(OrderKind kind);

class Orders {
  public:
    Orders() = default;
    explicit Orders(std::vector<Order> list) : list_(std::move(list)) {}

    const std::vector<Order>& list() const { return list_; }
    // Is this peer out at that step: banned or eliminated?
    const Order* barring(const PeerId& peer, std::uint64_t step) const;
    const Order* revoking(std::string_view person) const;
    const Order* admitting(std::string_view person) const;
    const Order* vouching(const PeerId& peer, std::uint64_t step) const;
    bool on_probation(const PeerId& peer, std::uint64_t step) const;
    // The peer's probation, if it is on one.
    const Order* probation_of(const PeerId& peer, std::uint64_t step) const;
    // The peer's probation for a mistake, if it is on one.
    const Order* mistake_of(const PeerId& peer, std::uint64_t step) const;
    // The order that says it has erred before, and was let in again.
    const Order* readmission_of(const PeerId& peer, std::uint64_t step) const;

    // With this one more; an order on the same subject that says less is replaced. False: there is
    // no room, or what is there says as much.
    bool add(Order order);
    // Probation ends early, by evidence that its contributions were right.
    void release(const PeerId& peer);
    // The peer votes again. A readmission is remembered.
    void forget_vouch(const PeerId& peer);
    std::size_t vouches() const;
    // Without what has run out before `step`.
    void forget_before(std::uint64_t step);

  private:
    std::vector<Order> list_;  // sorted by subject, person, kind
};

// Checks what makes a list sound whoever wrote it. Errors: peer_broke_protocol.
Ok check_orders(std::span<const Order> orders);

struct OrderChanges {
    std::vector<Order> added;  // or changed
    std::vector<Order> ended;  // before their time: probation, a vouch
    bool empty() const { return added.empty() && ended.empty(); }
};

// Is `after` what an honest leader may put in the place of `before` at this step, if the changes
// (returned) have evidence? What has not run out stays, but for probation and vouches, which may
// end, and for an order about a person, which another one replaces. What has run out is gone; what
// is new begins at this step. Errors: peer_broke_protocol.
Result<OrderChanges> changes_between(std::span<const Order> before,
                                     std::span<const Order> after,
                                     std::uint64_t step);

// "banned at step 214: computes something else than two others".
std::string in_words(const Order& order);

}  // namespace dedloc::robust
