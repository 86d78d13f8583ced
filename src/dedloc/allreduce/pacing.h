// Pacing: how long an owner waits for whom, and how far ahead of the slowest member it reads.
//
// A part is averaged when it has come from everybody, so a member that is far ahead of the slowest
// one that still sends, and will be in time, is not read from: its parts would only take that one's
// share of the owner's link, and the sender's link from averages. A member of which nothing was in
// the newest commits (TransferEnvironment::is_waited_for) is waited for like the others only if
// something has come of it in the first quarter of the reduce deadline (grid: eighth).
//
// Thread: the network thread. Cost: logarithmic.

#pragma once
#include <map>
#include <set>

#include "dedloc/allreduce/transfer.h"

namespace dedloc::allreduce {

inline constexpr Duration read_ahead = 1s;

class Pacing {
  public:
    explicit Pacing(const Transfer& transfer);

    bool doubts_somebody() const { return !doubtful_.empty(); }
    bool is_waited_for(std::uint32_t member) const;
    // Is it one whose contribution weighs nothing in the plan?
    bool is_weightless(std::uint32_t member) const {
        return transfer_.plan.members[member].weightless;
    }
    // How long members that weigh nothing are waited for when all others are there: a moment, and
    // not at all when too many have let the others wait.
    Duration grace() const;
    // The others waited for this member in vain.
    void do_not_wait_for(std::uint32_t member);
    // Lost since the exchange began, and not back.
    bool is_gone(std::uint32_t member) const;
    void lose(std::uint32_t member) { gone_.insert(member); }
    void arrived(std::uint32_t member) { arrived_[member] = transfer_.now(); }
    // When the newest contribution of one of these came; at least `at_least`.
    TimePoint newest_of(const std::set<std::uint32_t>& members, TimePoint at_least) const;

    // Reductions of the plan's own parts, repairs aside.
    void part_opened() { ++opened_; }
    void part_closed() { ++closed_; }
    // How long a part takes until it is closed, on average.
    Duration part_pace() const;
    // Will the parts be closed in time, if they go on as they have?
    bool is_on_schedule() const;
    // Has a member that sent so many parts sent what is due much later than what the slowest sends?
    bool is_far_ahead(std::size_t parts) const;

    // With one that keeps all others waiting.
    Duration timeout_with_one() const;
    // For members; in a grid the owner still waits for what is collected.
    Duration time_to_contribute() const {
        return std::chrono::milliseconds(transfer_.plan.reduce_ms) *
               (transfer_.routes.is_grid() ? 2 : 3) / 3;
    }
    Duration time_to_begin() const {
        return std::chrono::milliseconds(transfer_.plan.reduce_ms) /
               (transfer_.routes.is_grid() ? 8 : 4);
    }

  private:
    const Transfer& transfer_;
    std::set<std::uint32_t> doubtful_;            // members of which nothing was in newest commits
    std::set<std::uint32_t> gone_;                // members we lost on the way
    std::set<std::uint32_t> given_up_;            // weightless members that let us wait
    std::map<std::uint32_t, TimePoint> arrived_;  // the newest from each member
    std::size_t opened_ = 0;
    std::size_t closed_ = 0;  // of them
};

}  // namespace dedloc::allreduce
