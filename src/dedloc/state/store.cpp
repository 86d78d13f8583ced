#include "dedloc/state/store.h"

#include <algorithm>

#include "dedloc/state/transfer.h"

namespace dedloc::state {

void SnapshotStore::put(std::shared_ptr<const PublishedState> state) {
    DEDLOC_CHECK(state && state->snapshot);
    const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return entry.state->root() == state->root();
    });
    Entry entry{.state = std::move(state), .pinned_until = {}, .pinned_most = {}};
    if (same != entries_.end()) {
        entry.pinned_until = same->pinned_until;
        entry.pinned_most = same->pinned_most;
        entries_.erase(same);
    }
    entries_.push_back(std::move(entry));
    forget_surplus();
}

std::shared_ptr<const PublishedState> SnapshotStore::find(const Digest& root) const {
    for (const Entry& entry : entries_)
        if (entry.state->root() == root) return entry.state;
    return nullptr;
}

std::shared_ptr<const PublishedState> SnapshotStore::pin(const Digest& root) {
    for (Entry& entry : entries_) {
        if (entry.state->root() != root) continue;
        const TimePoint now = clock_.now();
        const bool is_newest = &entry == &entries_.back();  // is in nobody's way
        if (!entry.pinned_most || is_newest) entry.pinned_most = now + limits_.pinned_longest;
        entry.pinned_until = std::min(now + limits_.lease, *entry.pinned_most);
        return entry.state;
    }
    return nullptr;
}

std::shared_ptr<const PublishedState> SnapshotStore::newest() const {
    return entries_.empty() ? nullptr : entries_.back().state;
}

std::shared_ptr<const PartialState> SnapshotStore::arriving(const Digest& root) const {
    auto partial = arriving_.lock();
    return partial && partial->root() == root ? partial : nullptr;
}

std::vector<Digest> SnapshotStore::roots() const {
    std::vector<Digest> roots;
    for (const Entry& entry : entries_) roots.push_back(entry.state->root());
    return roots;
}

std::uint64_t SnapshotStore::bytes() const {
    std::uint64_t total = 0;
    for (const Entry& entry : entries_) total += entry.state->snapshot->bytes_size();
    return total;
}

// Forgets one that is older than the newest `steps`: the oldest that nobody loads, or the youngest
// where more than `pins` are loaded. False: nothing has to go.
bool SnapshotStore::forget_one(std::size_t steps, std::size_t pins) {
    if (entries_.size() <= steps) return false;
    const auto old_end = entries_.end() - static_cast<std::ptrdiff_t>(steps);
    const auto unpinned = std::find_if(
        entries_.begin(), old_end, [&](const Entry& entry) { return !is_pinned(entry); });
    if (unpinned == old_end && entries_.size() - steps <= pins) return false;
    entries_.erase(unpinned != old_end ? unpinned : old_end - 1);
    return true;
}

void SnapshotStore::forget_surplus() {
    while (forget_one(limits_.steps_max, limits_.pinned_max)) {
    }
    while (bytes() > limits_.bytes_usual && forget_one(limits_.steps_least, limits_.pinned_least)) {
    }
    while (bytes() > limits_.bytes_max && forget_one(1, 0)) {
    }
}

}  // namespace dedloc::state
