// Members of simulated robust runs that break one rule of the round, again and again, and what the
// rules say happens to them. A liar runs the engine as everybody does; what it sends is changed on
// its way out and signed anew (sim::World::on_send), as a peer of another build would.
//
// Thread: the world's. Lifetime: as long as the world.

#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dedloc/averaging/proof_messages.h"
#include "dedloc/consensus/messages.h"
#include "dedloc/robust/orders.h"
#include "dedloc/sim/world.h"

#include "tests/sim/sim_peer.h"

namespace dedloc::lab {

enum class ProtocolLie {
    none,              // all are honest
    wrong_root,        // commits to something else than it sends
    two_roots,         // commits to something else towards one owner
    shifted_part,      // reduces wrongly, as an owner
    false_row,         // tells numbers that its contribution contradicts
    false_accusation,  // says that an honest member's row is false
    withheld_nonce,
    withheld_rows,
    withheld_input,     // reduces wrongly and shows nobody of what
    double_vote,        // signs two decisions under one ballot
    false_charge,       // as a leader, bans somebody without evidence
    wrong_gradient,     // turned around and a thousand times as long, whatever it is told
    slight_error,       // a tenth too long, until it is told
    false_finding,      // computes others' contributions wrongly, as a validator
    unanswered_checks,  // as a validator
    colluding_pair,     // two with wrong gradients, each of which finds the other one right
    fixed_direction,    // hands in one long direction, whatever it is told
    hit_and_run,        // with a young key; leaves four steps after its first lie
    lonely_step,        // as a leader, makes a step of its own contribution alone
};

struct LieOutcome {
    ProtocolLie lie = ProtocolLie::none;
    const char* name = "";
    std::optional<robust::OrderKind>
        kind{};  // none: nothing happens to it but that nobody believes
    robust::Offence offence = robust::Offence::none;
    robust::Offence instead = robust::Offence::none;  // a ban for that does as well
    std::uint64_t enough = 8;  // lies, after which it must have; a few may not come to anything
    std::uint64_t steps = 0;   // in which it must have weighed before
};

// Every lie, and what the page lists for it.
const std::vector<LieOutcome>& protocol_lies();
const LieOutcome& outcome_of(ProtocolLie lie);
inline constexpr TimePoint lies_from{6s};  // everybody votes by then
// Steps after its first lie in which one that hits and runs is gone.
inline constexpr std::uint64_t runs_after = 4;
// The lie of a learner, of those lies that are computed.
LearnerLie learner_lie(ProtocolLie lie);

// Watches the rounds of a world, and lets one machine lie.
class ProtocolLiar {
  public:
    ProtocolLiar(sim::World& world, std::size_t liar, ProtocolLie lie);

    // Nonces that were sent too early: before all who are in the plan had committed.
    const std::vector<std::string>& early_draws() const { return early_; }
    std::uint64_t told(TimePoint until) const;

  private:
    void sent(const sim::World::Outgoing& message);
    void watch(const sim::World::Outgoing& message);
    void watch_draw(const sim::World::Outgoing& message);
    void watch_order_of_draw(const averaging::DrawMessage& draw);
    bool lie(const sim::World::Outgoing& message);
    bool lies_about(const Digest& plan);
    void note_truth(const sim::World::Outgoing& message);
    bool change_header(const sim::World::Outgoing& message);
    bool change_reveal(Bytes& bytes);
    bool shift_average(Bytes& bytes);
    bool change_row(Bytes& bytes);
    bool accuse(Bytes& bytes);
    bool withhold_rows(Bytes& bytes);
    bool vote_twice();

    sim::World& world_;
    std::size_t liar_;
    ProtocolLie lie_;
    // While it weighed something: what a newcomer proves is its own loss.
    std::vector<TimePoint> told_;
    Digest shifted_{};                     // the plan of the average that was shifted last
    bool weighs_ = false;                  // in the newest plan
    std::optional<std::size_t> deceived_;  // of two_roots
    Digest draw_;                          // the newest that was sent to the liar …
    // … and its place in the plan and that of whom it accuses.
    std::optional<std::pair<std::uint32_t, std::uint32_t>> accused_;
    std::optional<consensus::Propose> proposed_;         // to the liar
    std::map<Digest, std::set<std::size_t>> committed_;  // by plan: who has
    std::map<Digest, consensus::RoundPlan> plans_;
    std::map<Digest, std::set<std::size_t>> committed_at_draw_;  // when the first nonce was sent
    std::set<Digest> judged_;
    std::set<Digest> told_truly_;  // plans of which the liar has sent something as it is
    std::vector<std::string> early_;
};

}  // namespace dedloc::lab
