#include "tests/common/step_book.h"

#include <algorithm>

namespace dedloc::lab {

std::optional<StepSeen> step_in(const events::Event& event) {
    const auto* made = event.as<events::StepMade>();
    if (made == nullptr) return std::nullopt;
    return StepSeen{.step = made->step,
                    .time = event.time,
                    .members = made->members,
                    .samples = made->samples,
                    .loss = made->loss,
                    .exchange_s = made->averaging_s.value_or(0),
                    .hash = made->state_hash.hex()};
}

void StepBook::take(const events::Event& event, double at_s) {
    if (event.is<events::PartsReduced>()) ++rounds_of_aggregators_;
    const std::optional<StepSeen> seen = step_in(event);
    if (!seen) return;
    const auto [place, first] = steps_.try_emplace(seen->step);
    Entry& booked = place->second;
    if (first) {
        booked.step.step = seen->step;
        booked.step.at_s = at_s;
        booked.step.samples = seen->samples;
        booked.step.members = seen->members;
        booked.hash = seen->hash;
    }
    booked.step.at_s = std::min(booked.step.at_s, at_s);
    if (booked.hash != seen->hash) identical_ = false;
    if (seen->loss > 0) {  // not a number: nothing of what it handed in is in the step
        booked.loss_sum += seen->loss;
        booked.losses += 1;
    }
    if (seen->exchange_s > 0) {
        booked.exchange_sum += seen->exchange_s;
        booked.exchanges += 1;
    }
}

std::size_t StepBook::newest_members() const {
    return steps_.empty() ? 0 : steps_.rbegin()->second.step.members;
}

std::vector<BookedStep> StepBook::steps(std::uint64_t first) const {
    std::vector<BookedStep> all;
    for (auto at = steps_.lower_bound(first); at != steps_.end(); ++at) {
        const Entry& entry = at->second;
        all.push_back(entry.step);
        all.back().loss = entry.losses > 0 ? entry.loss_sum / entry.losses : 0;
        all.back().exchange_s = entry.exchanges > 0 ? entry.exchange_sum / entry.exchanges : 0;
    }
    return all;
}

}  // namespace dedloc::lab
