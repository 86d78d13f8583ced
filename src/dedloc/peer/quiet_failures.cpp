#include "dedloc/peer/quiet_failures.h"

#include <fmt/format.h>
#include <utility>

namespace dedloc::peer {
namespace {

// Votes that go on failing end the peer, whose last sentence says so.
bool is_to_be_mended(const events::Event& event) {
    return event.peer.is_empty() && event.is<events::CheckpointFailed,
                                             events::PublishFailed,
                                             events::TrainingFailed,
                                             events::JoinFileFailed,
                                             events::FileMissing,
                                             events::DataGone,
                                             events::KeyUsedTwice,
                                             events::VotesFailed,
                                             events::StateDiffers,
                                             events::CannotFollow,
                                             events::EventsDropped>();
}

}  // namespace

std::optional<std::string> QuietFailures::observe(const events::Event& event, double now) {
    if (!is_to_be_mended(event)) return std::nullopt;
    const auto [told, is_first] = told_.try_emplace(std::string(event.kind()));
    if (!is_first && now - told->second.at < failure_told_every_s) {
        ++told->second.since;
        return std::nullopt;
    }
    const std::uint64_t between = std::exchange(told->second.since, 0);
    told->second.at = now;
    if (between == 0) return event.text;
    return fmt::format("{} ({} more since the last time)", event.text, between);
}

}  // namespace dedloc::peer
