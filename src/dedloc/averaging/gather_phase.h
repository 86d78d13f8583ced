// GatherPhase: the leader waits for those who are expected to announce themselves.
#pragma once
#include <optional>
#include <set>
#include <vector>

#include "dedloc/averaging/newcomer_waits.h"
#include "dedloc/averaging/phase.h"
#include "dedloc/averaging/round_parts.h"
#include "dedloc/links/served_link.h"

namespace dedloc::averaging {

class GatherPhase final : public Phase {
  public:
    explicit GatherPhase(RoundParts& parts) : parts_(parts), environment_(parts.environment) {}

    std::string_view name() const override { return "gather"; }
    // Gives up where a step of ours would be a lonely one: others follow another leader.
    Task<PhaseEnd> begin(std::shared_ptr<Attempt> attempt) override;
    TimePoint deadline(const Attempt&) const override { return limit_; }
    bool complete(const Attempt& attempt) const override {
        return !others_follow_another(attempt.base);
    }
    // Looks at what goes over our link.
    void tick() override;
    void ledger_moved() override { lonely_turns_ = 0; }

  private:
    // The members that have announced themselves for `base`, and what comes together.
    struct Gathered {
        std::uint64_t brought = 0;  // samples, by others
        std::uint64_t weight = 0;   // with our own
        bool weighs = false;        // of members that weigh, and enough for a step
        std::set<PeerId> here;
        std::vector<PeerId> missing;     // expected, and waited for
        std::size_t missing_proved = 0;  // of them, those who have brought something before
        bool lonely = false;             // others live, and none of them brings anything
        bool loading = false;            // others load a state, and nobody brings anything
    };

    Task<void> gather(consensus::Base base);
    Gathered assess(const consensus::Base& base);
    bool makes_a_step(const consensus::Base& base) const;
    bool is_proved(const PeerId& peer, const consensus::Base& base) const;
    bool delays_others() const;
    bool may_be_waited_for(const PeerId& peer, const consensus::Base& base);
    void find_others(Gathered& gathered, const consensus::Base& base);
    void give_up_waiting(const Gathered& gathered, Duration waited);
    bool are_enough(const Gathered& gathered) const;
    Duration timeout(bool enough) const;
    Duration time_for_newcomers();
    bool others_follow_another(const consensus::Base& base) const;

    RoundParts& parts_;
    const RoundEnvironment& environment_;
    TimePoint limit_ = TimePoint::never();
    // When those who are missing began to be late; nothing: nobody brings anything yet.
    std::optional<TimePoint> since_;
    std::uint32_t lonely_turns_ = 0;  // how often we have led it and nobody came
    TimePoint lonely_since_;          // the first of them
    links::ServedLink served_;        // since we led the last time
    NewcomerWaits newcomers_;
    Duration average_takes_{0};  // our link, to each who fetched meanwhile; 0: not known
};

}  // namespace dedloc::averaging
