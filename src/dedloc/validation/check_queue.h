// CheckQueue: the contributions that this peer is to compute again, and in which order.
//
// First come disputed ones: an order waits for them. Then those of members that weigh, oldest
// first: the draw gave them to this peer, which is thought silent if they take long; then those
// that the draw gave to others, who have not answered. Newcomers come last, newest first: all that
// they contribute is to be checked, often more than there is time for, and a few right
// contributions let one of them in.
//
// Bounds: jobs_max jobs, and each keeps a state alive; a newcomer's job gives way. Thread: any one.
#pragma once
#include <cstddef>
#include <deque>
#include <optional>

#include "dedloc/base/bytes.h"
#include "dedloc/validation/check_job.h"

namespace dedloc::validation {

class CheckQueue {
  public:
    static constexpr std::size_t jobs_max = 64;

    // In the order in which they are taken.
    enum class Reason {
        disputed,  // a validator found something else
        drawn,     // to check a member that weighs
        deputy,    // whoever was drawn has not answered
        own_test,  // this peer is on trial, and nobody else hears of it
        newcomer,  // the author weighs nothing
    };
    struct Job {
        CheckJob what;
        Digest draw;  // of the round
        std::uint32_t target = 0;
        Reason reason = Reason::drawn;
    };

    void add(Job job);
    std::optional<Job> take();
    // Another round's newcomers are asked about now.
    void forget_newcomers(const Digest& draw);
    std::size_t size() const { return jobs_.size(); }

  private:
    std::deque<Job> jobs_;
};

}  // namespace dedloc::validation
