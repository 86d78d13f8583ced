#include "lab/step_book.h"

#include <algorithm>
#include <variant>

namespace dedloc::lab {

void StepBook::take(const collab::Event& event, double at_s) {
    if (event.kind == "reduced") ++rounds_of_aggregators_;
    if (event.kind != "step") return;
    Entry told;
    BookedStep& step = told.step;
    step.at_s = at_s;
    for (const auto& [name, value] : event.fields) {
        if (name == "step") step.step = static_cast<std::uint64_t>(std::get<std::int64_t>(value));
        if (name == "samples") step.samples = std::get<double>(value);
        if (name == "members")
            step.members = static_cast<std::size_t>(std::get<std::int64_t>(value));
        if (name == "loss") step.loss = std::get<double>(value);
        if (name == "state_hash") told.hash = std::get<std::string>(value);
    }
    Entry& booked = steps_.emplace(step.step, told).first->second;
    booked.step.at_s = std::min(booked.step.at_s, at_s);
    if (booked.hash != told.hash) identical_ = false;
    if (step.loss > 0) {  // 0: it has computed nothing yet
        booked.loss_sum += step.loss;
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
