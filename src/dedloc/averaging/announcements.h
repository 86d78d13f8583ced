// Announcements: who has announced itself for the open step, with what, and who is not waited for.
// Kept also by a peer that does not lead: if the leader fails, it knows who is there.
//
// Thread: the network thread. Limits: members_max trainers, aggregators_max aggregators.

#pragma once
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "dedloc/averaging/environment.h"
#include "dedloc/averaging/messages.h"

namespace dedloc::averaging {

// A member is thought to wait for so many intervals after its last announcement; an aggregator
// therefore announces itself before that, so that one lost message does not leave it out.
inline constexpr int announcement_age_intervals = 4;
inline constexpr int announced_again_intervals = announcement_age_intervals / 2;

struct Announced {
    Announce announce;
    TimePoint at;
    TimePoint brought_at{};  // when it first said, for this step, that it brings something
};

class Announcements {
  public:
    Announcements(const RoundEnvironment& environment, const links::Timeouts& timeouts)
        : environment_(environment), timeouts_(timeouts) {}

    // False: there is no room.
    bool keep(const PeerId& from, Announce announce);
    void erase(const PeerId& peer) { announced_.erase(peer); }
    // Keeps only those for another decision than `previous`. A peer that was quick has announced
    // itself for the new base already.
    void keep_only(const Digest& previous);

    const std::map<PeerId, Announced>& all() const { return announced_; }
    std::vector<std::pair<PeerId, const Announced*>> fresh(const consensus::Base& base,
                                                           bool of_aggregators = false) const;
    // Somebody brings something.
    bool offer_something() const;
    bool is_leaving(const PeerId& peer) const;
    // Trainers that announced themselves lately, without `refused`: they may go on as a branch.
    std::map<PeerId, consensus::Voter> survivors(const consensus::Base& base,
                                                 const std::set<PeerId>& refused) const;

    // The peer cost a deadline, until it announces itself again, here or to the leader of a round.
    void do_not_wait_for(const PeerId& peer) { not_waited_for_.insert(peer); }
    bool is_waited_for(const PeerId& peer) const { return !not_waited_for_.contains(peer); }
    bool waits_for_all() const { return not_waited_for_.empty(); }
    // The plan's members have been in a round since.
    void wait_for_members(const consensus::RoundPlan& plan);

  private:
    bool make_room_for(const PeerId& from, bool aggregator);

    const RoundEnvironment& environment_;
    const links::Timeouts& timeouts_;
    std::map<PeerId, Announced> announced_;
    std::set<PeerId> not_waited_for_;
};

}  // namespace dedloc::averaging
