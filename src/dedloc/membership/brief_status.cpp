#include "dedloc/membership/brief_status.h"

#include <type_traits>

#include "dedloc/wire/message.h"

namespace dedloc::membership {
namespace {

// Calls act(of the status, of the brief one) for each field that a brief status may have.
template <typename Act>
void for_each_amended(const Act& act) {
    act(&Status::step, &BriefStatus::step);
    act(&Status::certificate, &BriefStatus::certificate);
    act(&Status::state_hash, &BriefStatus::state_hash);
    act(&Status::samples, &BriefStatus::samples);
    act(&Status::committed_samples, &BriefStatus::committed_samples);
    act(&Status::branch_samples, &BriefStatus::branch_samples);
    act(&Status::samples_per_s, &BriefStatus::samples_per_s);
    act(&Status::micro_batch_s, &BriefStatus::micro_batch_s);
    act(&Status::loss, &BriefStatus::loss);
    act(&Status::progress, &BriefStatus::progress);
    act(&Status::upload_bytes_per_s, &BriefStatus::upload_bytes_per_s);
    act(&Status::download_bytes_per_s, &BriefStatus::download_bytes_per_s);
    act(&Status::round_trip_s, &BriefStatus::round_trip_s);
}

}  // namespace

std::optional<BriefStatus> shortened(const Status& status, const Status& base) {
    BriefStatus brief;
    brief.base = base.sequence;
    brief.sequence = status.sequence;
    brief.phase = status.phase;
    Status others = status;  // with the base's in place of what may be amended
    others.sequence = base.sequence;
    others.phase = base.phase;
    bool fits = true;
    for_each_amended([&](auto whole, auto part) {
        const auto& now = status.*whole;
        others.*whole = base.*whole;
        if (now == base.*whole) return;
        brief.*part = now;
        if (now == std::remove_cvref_t<decltype(now)>{}) fits = false;
    });
    if (!fits || wire::encode(others) != wire::encode(base)) return std::nullopt;
    return brief;
}

std::optional<Status> amended(const Status& base, const BriefStatus& brief) {
    if (brief.base != base.sequence) return std::nullopt;
    Status status = base;
    status.sequence = brief.sequence;
    status.phase = brief.phase;
    for_each_amended([&](auto whole, auto part) {
        if (!(brief.*part == std::remove_cvref_t<decltype(brief.*part)>{}))
            status.*whole = brief.*part;
    });
    return status;
}

}  // namespace dedloc::membership
