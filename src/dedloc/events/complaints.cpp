#include "dedloc/events/complaints.h"

#include <algorithm>
#include <utility>

namespace dedloc::events {
namespace {

constexpr Duration barred_for = std::chrono::seconds(10);

}  // namespace

void Complaints::add(const PeerId& peer, TimePoint now, std::string why, Any what) {
    if (!peers_.contains(peer) && peers_.size() >= misbehaving_peers_max)
        peers_.erase(std::ranges::min_element(
            peers_, {}, [](const auto& entry) { return entry.second.since; }));
    Entry& entry = peers_[peer];
    ++entry.all;
    if (now - entry.since >= Duration(1s)) {
        entry.since = now;
        entry.lines = 0;
    }
    if (++entry.lines <= misbehaviour_lines_per_s_max)
        teller_.tell(std::move(what), peer, std::move(why));
}

void Complaints::add_if_broken(const PeerId& peer, TimePoint now, const Error& why) {
    if (why.kind() == ErrorKind::peer_broke_protocol) add(peer, now, why.message());
}

std::uint64_t Complaints::count(const PeerId& peer) const {
    const auto found = peers_.find(peer);
    return found == peers_.end() ? 0 : found->second.all;
}

void Complaints::bar(const PeerId& peer, TimePoint now) {
    const auto found = peers_.find(peer);
    if (found != peers_.end()) found->second.barred_until = now + barred_for;
}

bool Complaints::is_barred(const PeerId& peer, TimePoint now) const {
    const auto found = peers_.find(peer);
    return found != peers_.end() && now < found->second.barred_until;
}

}  // namespace dedloc::events
