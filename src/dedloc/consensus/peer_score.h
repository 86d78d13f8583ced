// PeerScore: which peers let the others down in committed rounds. Everybody learns it from the same
// certificates, so that it does not matter who leads next.
//
//   missed        brings a contribution by the plan, and no part that another one reduced has it in
//                 it: owns nothing until one has again. After two commits in a row owners wait for
//                 it no longer than a live member needs to begin (exchange.h).
//   failed owner  all of its parts were reduced again by others: it owns nothing in the next
//                 commits, four at first, twice as many each time that follows. In a grid a
//                 collector that fails costs its whole column its parts, and it all stands aside.
//
// Thread: the network thread. Cost: a pass over the parts and members of each commit.

#pragma once
#include <cstdint>
#include <map>
#include <optional>

#include "dedloc/base/time.h"
#include "dedloc/consensus/messages.h"

namespace dedloc::consensus {

// Is something of what this member contributed in a part that another one reduced? No answer where
// the plan gives it all parts itself. Whoever is only in the parts that it reduces itself, by a
// repair perhaps, may have sent nothing to anybody. `decision` is a commit of this plan.
std::optional<bool> has_reached_others(const RoundPlan& plan,
                                       const Decision& decision,
                                       std::size_t member);

class PeerScore {
  public:
    // Learns from each decision, as it is accepted; `plan`: a commit's. False: its round waited for
    // somebody who failed, or came to nothing. (Where somebody is left out here and there, or most
    // are late, links are slow.)
    bool learn(const Decision& decision, const RoundPlan* plan);

    bool may_own(const PeerId& peer) const;
    // A peer that gets nothing through to others had better not lead, while another one can.
    bool may_lead(const PeerId& peer) const;
    // Does it get the time that all have for their contributions?
    bool is_waited_for(const PeerId& peer) const;

  private:
    struct Entry {
        std::uint32_t missed = 0;    // commits in a row
        std::uint64_t back_off = 0;  // commits
        std::uint64_t owns_from = 0;
        std::uint64_t newest = 0;  // the commit that changed this
    };

    bool learn_of_members(const Decision& decision, const RoundPlan& plan);
    bool learn_of_owners(const Decision& decision, const RoundPlan& plan);
    Entry& entry_of(const PeerId& peer);
    std::uint32_t missed(const PeerId& peer) const;

    std::uint64_t commits_ = 0;
    std::map<PeerId, Entry> entries_;
};

}  // namespace dedloc::consensus
