#include "dedloc/collab/round_events.h"

#include <algorithm>

namespace dedloc::collab {
namespace {

constexpr std::size_t lines_told_max = 32;

std::string lines_of(const averaging::PlanNote& plan) {
    std::string text;
    for (std::size_t i = 0; i < std::min(plan.lines.size(), lines_told_max); ++i) {
        const averaging::MemberLine& line = plan.lines[i];
        text += fmt::format("{}{}={:.4g}/{:.4g}{}{}",
                            i == 0 ? "" : " ",
                            line.peer.short_text(),
                            line.upload_bytes_per_s * 8e-6,
                            line.download_bytes_per_s * 8e-6,
                            line.aggregator ? "a" : "",
                            line.may_own ? "" : "n");
    }
    return text;
}

events::PlanMade event_of(const averaging::PlanNote& plan) {
    constexpr std::size_t left_out_told_max = 8;
    events::PlanMade made{.predicted_s = plan.predicted_s, .left_out = plan.left_out.size()};
    if (!plan.bottleneck.empty()) made.bottleneck = plan.bottleneck;
    if (!plan.bottleneck_peer.is_empty()) made.bottleneck_peer = plan.bottleneck_peer.text();
    if (plan.bottleneck_bytes_per_s > 0) made.bottleneck_mbit = plan.bottleneck_bytes_per_s * 8e-6;
    if (plan.vector_bytes > 0) made.vector_mb = plan.vector_bytes * 1e-6;
    if (std::string lines = lines_of(plan); !lines.empty()) made.lines = std::move(lines);
    if (plan.last_came) {
        made.last_peer = plan.last_came->peer.text();
        made.last_s = plan.last_came->seconds;
    }
    std::string peers;
    for (std::size_t i = 0; i < std::min(plan.left_out.size(), left_out_told_max); ++i)
        peers += (i == 0 ? "" : " ") + plan.left_out[i].text();
    if (!peers.empty()) made.left_out_peers = std::move(peers);
    return made;
}

}  // namespace

events::Any event_of(const averaging::RoundNote& note) {
    using Kind = averaging::RoundNote::Kind;
    switch (note.kind) {
        case Kind::plan_made:
            return note.plan ? event_of(*note.plan) : events::PlanMade{};
        case Kind::repair:
            return events::PartsRepaired{};
        case Kind::refused_input:
            return events::InputRefused{};
        case Kind::refused_message:
            return events::MessageRefused{};
        case Kind::owner_failed:
            return events::OwnerFailed{};
        case Kind::values_clipped:
            return events::ValuesClipped{};
        case Kind::aborted:
            return events::RoundFailed{};
        case Kind::leader_suspected:
            return events::LeaderSuspected{};
        case Kind::branch_opened:
            return events::BranchOpened{};
        case Kind::round_full:
            return events::RoundFull{};
        case Kind::waited_in_vain:
            return events::WaitedInVain{};
        case Kind::votes_failed:
            return events::VotesFailed{};
        case Kind::votes_failing:
            return events::VotesFailing{};
        case Kind::votes_written:
            return events::VotesWritten{};
    }
    return events::MessageRefused{};
}

}  // namespace dedloc::collab
