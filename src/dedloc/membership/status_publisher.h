// StatusPublisher: what this peer says of itself to others, put together from those that know it.
//
// Thread: the network thread.

#pragma once
#include "dedloc/membership/status.h"
#include "dedloc/p2p/host.h"

namespace dedloc::membership {

class StatusPublisher {
  public:
    // `first_sequence`: beyond that of every status of an earlier process of this peer.
    StatusPublisher(const p2p::Host& host,
                    Role role,
                    std::string name,
                    std::uint64_t first_sequence)
        : host_(host), role_(role), name_(std::move(name)), sequence_(first_sequence) {}

    Phase phase() const { return phase_; }
    // True: it is another one now.
    bool set_phase(Phase phase);
    void set_download_progress(double progress) { download_progress_ = progress; }
    // Our own evaluation of the state of `step` found it.
    void set_accuracy(std::uint64_t step, double accuracy);
    // The accuracy of our own evaluation; 0: there was none.
    double accuracy() const { return accuracy_step_ > 0 ? accuracy_ : 0; }

    // A new status without what the backend and the trainer know.
    Status next() const;

  private:
    const p2p::Host& host_;
    Role role_;
    std::string name_;
    mutable std::uint64_t sequence_;
    Phase phase_ = Phase::starting;
    double download_progress_ = 0;
    double accuracy_ = 0;
    std::uint64_t accuracy_step_ = 0;
};

}  // namespace dedloc::membership
