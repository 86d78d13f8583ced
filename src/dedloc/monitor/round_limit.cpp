#include "dedloc/monitor/round_limit.h"

#include <algorithm>
#include <utility>

namespace dedloc::monitor {

void RoundLimit::add(const events::Event& event) {
    if (const auto* plan = event.as<events::PlanMade>()) plan_ = *plan;
    if (!event.is<events::StepMade>()) return;
    ++steps_since_;
    if (!plan_) return;
    planned_ = {.step = event.step, .plan = *std::exchange(plan_, std::nullopt)};
    steps_since_ = 0;
}

const RoundLimit::Planned* RoundLimit::newest() const {
    return planned_ && steps_since_ < limit_steps_max ? &*planned_ : nullptr;
}

std::optional<bool> is_limit_measured(const events::PlanMade& plan,
                                      const std::vector<membership::Status>& statuses) {
    const auto status = std::ranges::find_if(statuses, [&](const membership::Status& each) {
        return each.peer.text() == plan.bottleneck_peer;
    });
    if (status == statuses.end()) return std::nullopt;
    return (plan.bottleneck == "download" ? status->download_bytes_per_s
                                          : status->upload_bytes_per_s) > 0;
}

}  // namespace dedloc::monitor
