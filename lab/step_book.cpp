#include "lab/step_book.h"

#include <algorithm>
#include <variant>

namespace dedloc::lab {

std::optional<StepSeen> step_in(const collab::Event& event) {
    if (event.kind != "step") return std::nullopt;
    StepSeen seen;
    seen.time = event.time;
    for (const auto& [name, value] : event.fields) {
        if (const auto* count = std::get_if<std::int64_t>(&value)) {
            if (name == "step") seen.step = static_cast<std::uint64_t>(*count);
            if (name == "members") seen.members = *count;
        } else if (const auto* number = std::get_if<double>(&value)) {
            if (name == "samples") seen.samples = *number;
            if (name == "loss") seen.loss = *number;
        } else if (const auto* text = std::get_if<std::string>(&value)) {
            if (name == "state_hash") seen.hash = *text;
        }
    }
    return seen;
}

void StepBook::take(const collab::Event& event, double at_s) {
    if (event.kind == "reduced") ++rounds_of_aggregators_;
    const std::optional<StepSeen> seen = step_in(event);
    if (!seen) return;
    const auto [place, first] = steps_.try_emplace(seen->step);
    Entry& booked = place->second;
    if (first) {
        booked.step.step = seen->step;
        booked.step.at_s = at_s;
        booked.step.samples = seen->samples;
        booked.step.members = static_cast<std::size_t>(seen->members);
        booked.hash = seen->hash;
    }
    booked.step.at_s = std::min(booked.step.at_s, at_s);
    if (booked.hash != seen->hash) identical_ = false;
    if (seen->loss > 0) {  // not a number: nothing of what it handed in is in the step
        booked.loss_sum += seen->loss;
        booked.losses += 1;
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
    }
    return all;
}

}  // namespace dedloc::lab
