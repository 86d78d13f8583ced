// StepBook: what the peers of one run say of its steps, put together: when the first of them had
// it, the mean loss, and whether all had the same state.
//
// Thread: one. Cost: some hundred bytes a step.

#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/events/events.h"

namespace dedloc::lab {

// One peer's word of one step.
struct StepSeen {
    std::uint64_t step = 0;
    double time = 0;  // the event's
    std::uint64_t members = 0;
    double samples = 0;
    double loss = 0;
    double exchange_s = 0;  // from the plan to the certificate; 0: not known
    std::string hash;
};
std::optional<StepSeen> step_in(const events::Event& event);  // none: it is about something else

struct BookedStep {
    std::uint64_t step = 0;
    double at_s = 0;          // when the first peer had it
    double samples = 0;       // in it
    double loss = 0;          // mean of what the members handed in
    std::size_t members = 0;  // that train
    double round_s = 0;       // that trainers waited for it, mean; who keeps the book fills it in
    double exchange_s = 0;    // from the plan to the certificate, mean
};

class StepBook {
  public:
    // `at_s`: when it was said, on whatever clock.
    void take(const events::Event& event, double at_s);

    std::uint64_t newest() const { return steps_.empty() ? 0 : steps_.rbegin()->first; }
    std::size_t newest_members() const;
    std::vector<BookedStep> steps(std::uint64_t first = 0) const;
    bool identical() const { return identical_; }  // no two peers differed at one step
    std::uint64_t rounds_of_aggregators() const { return rounds_of_aggregators_; }

  private:
    struct Entry {
        BookedStep step;
        std::string hash;
        double loss_sum = 0;
        double losses = 0;
        double exchange_sum = 0;
        double exchanges = 0;
    };
    std::map<std::uint64_t, Entry> steps_;
    std::uint64_t rounds_of_aggregators_ = 0;
    bool identical_ = true;
};

}  // namespace dedloc::lab
