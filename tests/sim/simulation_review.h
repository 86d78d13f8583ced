// SimulationReview: after a simulation, what the certified chains and the machines say together:
// did steps keep their pace, did nobody step alone or open a branch without need, did everybody
// play its own role, does the liar of a robust run end in the order that the rules name.
//
// Checkers judge what peers say and do by itself; the review also knows which machine was disturbed
// when, and holds nobody to anything in that time. Violations go to the checkers, figures into the
// result.
//
// Thread: the world's. Lifetime: no longer than what it was given. Cost: one pass over all
// certified decisions for each promise.

#pragma once
#include <cstdint>
#include <optional>
#include <set>

#include "tests/sim/checkers.h"
#include "tests/sim/protocol_liars.h"
#include "tests/sim/scenario.h"
#include "tests/sim/simulation.h"

namespace dedloc::lab {

class SimulationReview {
  public:
    SimulationReview(const SimulationOptions& options,
                     const SimRun& run,
                     const Scenario& scenario,
                     Checkers& checkers,
                     SimulationResult& result)
        : options_(options), run_(run), scenario_(scenario), checkers_(checkers), result_(result) {}

    // Contributions handed in after `until` may still be on their way and are not judged.
    void check_chains(TimePoint until);
    // Only of a robust run. Its liar told so many lies by what it computed.
    void check_orders(const ProtocolLiar& liar, std::uint64_t lies_of_learner);
    void count_samples();

  private:
    std::optional<TimePoint> made_at(const Link& link) const;
    const Link* before(const Link& link) const;
    bool undisturbed(const PeerId& peer, TimePoint from, TimePoint to) const;
    bool all_undisturbed(TimePoint from, TimePoint to) const;
    bool can_meet(const PeerId& one, const PeerId& other) const;
    bool was_there(const Seat& seat, const Link& link, TimePoint at) const;
    bool was_disturbed(const robust::Order& order, const Link& link) const;

    void check_pace();
    void check_nobody_is_alone();
    void check_branches();
    void check_aggregators();
    void check_left_out();
    void check_minimum();
    bool keeps_a_majority(const Link& link) const;

    bool is_wanted(const robust::Order& order) const;
    bool is_on_its_way(const robust::Order& order) const;
    bool check_order(const robust::Order& order, const Link& link, std::set<PeerId>& reproached);
    void count_peer_steps(const Link& link);
    TimePoint judged_until() const;
    std::uint64_t steps_of_liar() const;

    const SimulationOptions& options_;
    const SimRun& run_;
    const Scenario& scenario_;
    Checkers& checkers_;
    SimulationResult& result_;
};

}  // namespace dedloc::lab
