// The script of the demo, by global step: one peer is killed, one leaves, one joins.
//
// Pure: it is asked with the run's step and answers what is due now, each act once and in order.

#pragma once
#include <cstdint>
#include <optional>

namespace dedloc::cli {

enum class Act { kill, leave, join };

class DemoScript {
  public:
    // steps: of the whole run.
    explicit DemoScript(std::uint64_t steps) : steps_(steps) {}

    // At 25 %, 45 % and 60 % of the run.
    std::optional<Act> due(std::uint64_t step);
    bool finished() const { return done_ == 3; }

  private:
    std::uint64_t steps_;
    int done_ = 0;
};

}  // namespace dedloc::cli
