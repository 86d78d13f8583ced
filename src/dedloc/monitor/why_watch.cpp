#include "dedloc/monitor/why_watch.h"

#include <algorithm>

namespace dedloc::monitor {
namespace {

// The middle one of the trainers'; nothing: none has a state.
std::optional<std::uint64_t> step_of(const std::vector<membership::Status>& statuses) {
    std::vector<std::uint64_t> steps;
    for (const membership::Status& status : statuses)
        if (status.role == membership::Role::trainer && !status.is_newcomer())
            steps.push_back(status.step);
    if (steps.empty()) return std::nullopt;
    const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
    std::ranges::nth_element(steps, middle);
    return *middle;
}

bool is_in_plans(const membership::Status& status) {
    return status.role == membership::Role::aggregator || status.is_training();
}

}  // namespace

void WhyWatch::observe(const std::vector<membership::Status>& statuses, double now) {
    for (const membership::Status& status : statuses) names_.set_name(status.peer, status.name);
    const auto step = step_of(statuses);
    if (!step) return;
    newest_ = statuses;
    if (step_ && *step > *step_) {
        if (first_step_at_) steps_ += *step - *step_;
        if (!first_step_at_) first_step_at_ = now;
        last_step_at_ = now;
    }
    step_ = step;
    if (!first_step_at_) return;
    ++looks_count_;
    for (const membership::Status& status : statuses) {
        if (!status.is_training()) continue;
        ++training_;
        if (status.phase == membership::Phase::computing) ++computing_;
    }
}

WhyFacts WhyWatch::facts(const run::RunFile& run, double vector_bytes) const {
    WhyFacts facts;
    facts.run = run;
    facts.steps = steps_;
    facts.parts_known = false;
    facts.vector_bytes = vector_bytes;
    for (const membership::Status& status : newest_) {
        if (!is_in_plans(status)) continue;
        facts.peers.push_back({.name = names_.of(status.peer),
                               .samples_per_s = status.samples_per_s,
                               .upload_bytes_per_s = status.upload_bytes_per_s,
                               .download_bytes_per_s = status.download_bytes_per_s,
                               .micro_batch_s = status.micro_batch_s,
                               .aggregator = status.role == membership::Role::aggregator,
                               .may_own = status.dialable});
    }
    if (steps_ == 0 || looks_count_ == 0 || training_ == 0) return facts;
    const double step_s = (last_step_at_ - *first_step_at_) / static_cast<double>(steps_);
    facts.contributors = training_ / static_cast<double>(looks_count_);
    facts.parts.computing_s = step_s * computing_ / training_;
    facts.parts.averaging_s = step_s - facts.parts.computing_s;
    return facts;
}

}  // namespace dedloc::monitor
