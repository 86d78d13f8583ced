#include "dedloc/collab/meeting.h"

#include <algorithm>

#include "dedloc/membership/peers_to_dial.h"
#include "dedloc/run/join_string.h"

namespace dedloc::collab {
namespace {

constexpr Duration meeting_timeout = 5s;  // with one address
constexpr int looks_least = 4;
constexpr Duration meeting_pause = 300ms;  // until all addresses are tried again

}  // namespace

bool Meeting::sees_living_run() const {
    return std::ranges::any_of(membership_.live(), [](const membership::KnownPeer* peer) {
        return peer->status.has_state();
    });
}

// False: nobody answers who has its state. Where all refuse at once, that is known soon.
Task<Result<bool>> Meeting::find_living_run(TimePoint deadline) {
    for (int looks = 0; looks < looks_least || !membership_.live().empty(); ++looks) {
        for (const std::string& address : membership::peers_to_dial(host_, options_.bootstrap)) {
            const auto parts = run::split_peer_address(address);
            if (parts && membership_.is_member(parts->peer)) continue;
            const TimePoint until = std::min(deadline, node_.clock.now() + meeting_timeout);
            auto peer = co_await membership_.meet(address, until);
            if (peer || peer.error().kind() != ErrorKind::denied || !options_.run.access) continue;
            // This peer is out of the run: a branch beside it would have no members.
            co_return std::move(peer).error();
        }
        if (sees_living_run()) co_return true;
        if (node_.clock.now() >= deadline) break;
        co_await node_.clock.sleep_for(meeting_pause);
    }
    co_return sees_living_run();
}

Task<Result<void>> Meeting::meet_somebody(TimePoint deadline) {
    Error last = make_error(ErrorKind::bad_input, "the join string names no address");
    while (node_.clock.now() < deadline) {
        std::optional<Error> other_run;  // what one of them says who trains another by now
        for (const std::string& address : membership::peers_to_dial(host_, options_.bootstrap)) {
            const TimePoint until = std::min(deadline, node_.clock.now() + meeting_timeout);
            auto peer = co_await membership_.meet(address, until);
            if (peer) co_return Result<void>();
            last = std::move(peer).error().with_context(address);
            if (last.kind() == ErrorKind::denied) co_return last;
            if (last.kind() == ErrorKind::conflict) other_run = last;
        }
        if (other_run) co_return *std::move(other_run);
        co_await node_.clock.sleep_for(meeting_pause);
    }
    co_return last.with_context("nobody of the run could be reached");
}

Task<void> Meeting::keep_meeting() {
    Duration pause = 1s;
    for (;;) {
        for (const std::string& address : membership::peers_to_dial(host_, options_.bootstrap)) {
            const auto parts = run::split_peer_address(address);
            if (parts && (parts->peer == host_.id() || membership_.is_member(parts->peer)))
                continue;
            const TimePoint until = node_.clock.now() + meeting_timeout;
            (void)co_await membership_.meet(address, until);
        }
        co_await node_.clock.sleep_for(pause);
        pause = membership_.live().empty() ? 1s : std::min<Duration>(pause * 2, 30s);
    }
}

}  // namespace dedloc::collab
