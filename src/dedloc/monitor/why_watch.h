// WhyWatch: what an observer sees of a run's steps, for why.h: how long they take and how much of
// that time trainers compute, from the statuses that all peers tell.
//
// Thread: the owner's. Cost: O(peers) a look.

#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "dedloc/membership/status.h"
#include "dedloc/monitor/why.h"

namespace dedloc::monitor {

class WhyWatch {
  public:
    // A few times a second. `now`: seconds.
    void observe(const std::vector<membership::Status>& statuses, double now);
    // Whole steps that were seen from beginning to end.
    std::uint64_t steps() const { return steps_; }
    // `vector_bytes`: of an average, encoded; 0: not known.
    WhyFacts facts(const run::RunFile& run, double vector_bytes) const;

  private:
    events::PeerNames names_;
    std::vector<membership::Status> newest_;
    std::optional<std::uint64_t> step_;
    std::optional<double> first_step_at_;  // when the first whole step began
    double last_step_at_ = 0;
    std::uint64_t steps_ = 0;
    std::uint64_t looks_count_ = 0;  // since then
    double training_ = 0;            // trainers that train, summed over the looks
    double computing_ = 0;           // those of them that compute
};

}  // namespace dedloc::monitor
