// Following: a member that does not lead asks the leader to be in its round, again and again, and
// finds out when the leader has failed.
//
// Thread: the network thread.

#pragma once
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dedloc/averaging/full_round.h"
#include "dedloc/averaging/round_parts.h"
#include "dedloc/consensus/service.h"

namespace dedloc::averaging {

class Following {
  public:
    Following(RoundParts& parts, consensus::ConsensusService& certificates)
        : parts_(parts), environment_(parts.environment), certificates_(certificates) {}

    // One question to the leader, its answer, and a pause.
    Task<void> follow(consensus::Base base, PeerId leader);
    void ledger_moved() {
        told_.clear();
        asked_.reset();
    }
    // Has a leader heard of this contribution of ours, for the open instance?
    bool has_told(const consensus::MemberInput& input) const {
        return std::ranges::find(told_, input) != told_.end();
    }
    // Does this leader, that we asked and that does not answer, live as far as we know?
    bool hears_from(const PeerId& leader) const {
        return environment_.now() < overdue_at(leader, silence_of_the_dead() / 2);
    }

  private:
    void pass_over_if_idle(const consensus::Base& base, const PeerId& leader);
    Duration timeout_with_leader() const;
    Task<void> ask_leader(PeerId leader, Bytes request, std::shared_ptr<Result<Bytes>> answer);
    Task<void> until_overdue(PeerId leader);
    TimePoint overdue_at(const PeerId& leader, Duration silence) const;
    Duration silence_of_the_dead() const;
    Task<void> pause_following(consensus::Base base, PeerId leader);
    bool awaits_averages(const consensus::Base& base) const;

    RoundParts& parts_;
    const RoundEnvironment& environment_;
    consensus::ConsensusService& certificates_;
    std::vector<consensus::MemberInput> told_;           // what leaders have heard of us
    std::optional<std::pair<PeerId, TimePoint>> asked_;  // a leader that has not answered yet
    std::map<PeerId, int> late_answers_;                 // of leaders, in a row
    FullRound full_round_{environment_.teller};
    Duration answers_in_{0};  // the slowest leader's lately, forgotten by and by
};

}  // namespace dedloc::averaging
