#include "dedloc/state/store.h"

#include <algorithm>

#include "dedloc/state/transfer.h"

namespace dedloc::state {

void SnapshotStore::put(std::shared_ptr<const PublishedState> state) {
    DEDLOC_CHECK(state && state->snapshot);
    const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return entry.state->root() == state->root();
    });
    Entry entry{.state = std::move(state), .pinned_until = {}};
    if (same != entries_.end()) {
        entry.pinned_until = same->pinned_until;
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
        entry.pinned_until = clock_.now() + limits_.lease;
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

void SnapshotStore::forget_surplus() {
    const TimePoint now = clock_.now();
    const auto pinned = [now](const Entry& entry) { return entry.pinned_until > now; };
    // Among the last steps_max states all stay; older ones only while they are pinned.
    std::size_t old_count =
        entries_.size() > limits_.steps_max ? entries_.size() - limits_.steps_max : std::size_t{0};
    for (std::size_t i = 0; i < old_count;) {
        if (pinned(entries_[i])) {
            ++i;
            continue;
        }
        entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
        --old_count;
    }
    while (old_count > limits_.pinned_max) {
        entries_.pop_front();
        --old_count;
    }
    // Too many bytes: unpinned states go first, then pinned ones, oldest first; never the newest.
    while (entries_.size() > 1 && bytes() > limits_.bytes_max) {
        const auto last = entries_.end() - 1;
        const auto unpinned = std::find_if(
            entries_.begin(), last, [&](const Entry& entry) { return !pinned(entry); });
        entries_.erase(unpinned != last ? unpinned : entries_.begin());
    }
}

}  // namespace dedloc::state
