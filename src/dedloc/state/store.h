// SnapshotStore: the states a peer can give to others, the newest few steps of them.
//
// A provider never waits for a download: it puts the next state and forgets the oldest. A download
// in progress pins its state under a lease that every chunk asked for renews; a lease that is not
// renewed runs out. Where there are too many pins the youngest of the old ones goes: who has loaded
// longest is nearest to its end, and what it has is worth most; otherwise those who come one after
// the other would drive each other out, and nobody would ever get in.
//
// Invariants: the newest state is always there; at most steps_max unpinned and steps_max +
// pinned_max states in all, of large states steps_least and pinned_least; bytes ≤ bytes_max unless
// the newest alone is larger.
// Thread: the network thread. Cost: O(states).

#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "dedloc/base/time.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/state/manifest.h"

namespace dedloc::state {

struct StoreLimits {
    std::size_t steps_max = 4;
    std::size_t pinned_max = 4;
    std::uint64_t bytes_max = std::uint64_t{8} << 30;
    // Each is a copy in memory: beyond so many bytes there are fewer. The last but one is what
    // others still stand on while a step is applied.
    std::uint64_t bytes_usual = std::uint64_t{1} << 30;
    std::size_t steps_least = 2;
    std::size_t pinned_least = 2;
    Duration lease = 90s;  // longer than a chunk takes where many share a slow line
    // In all: nobody keeps others' pins out for ever.
    Duration pinned_longest = std::chrono::hours(2);
};

class PartialState;  // transfer.h

class SnapshotStore {
  public:
    explicit SnapshotStore(runtime::Clock& clock, StoreLimits limits = {})
        : clock_(clock), limits_(limits) {}
    SnapshotStore(const SnapshotStore&) = delete;
    SnapshotStore& operator=(const SnapshotStore&) = delete;

    // The newest state from now on. The same root again only becomes the newest.
    void put(std::shared_ptr<const PublishedState> state);

    // nullptr: not here (any more).
    std::shared_ptr<const PublishedState> find(const Digest& root) const;
    // As find, and keeps the state for a lease from now on.
    std::shared_ptr<const PublishedState> pin(const Digest& root);
    std::shared_ptr<const PublishedState> newest() const;  // nullptr: nothing was put yet

    // Gives on what arrives here as far as it has come; until its owner forgets it.
    void set_arriving(std::weak_ptr<const PartialState> partial) { arriving_ = std::move(partial); }
    std::shared_ptr<const PartialState> arriving(const Digest& root) const;  // nullptr: another

    std::vector<Digest> roots() const;  // oldest first
    std::uint64_t bytes() const;
    std::size_t size() const { return entries_.size(); }

  private:
    struct Entry {
        std::shared_ptr<const PublishedState> state;
        TimePoint pinned_until{};
        std::optional<TimePoint> pinned_most{};  // not beyond that, from the first pin on
    };
    bool is_pinned(const Entry& entry) const { return entry.pinned_until > clock_.now(); }
    bool forget_one(std::size_t steps, std::size_t pins);
    void forget_surplus();

    runtime::Clock& clock_;
    StoreLimits limits_;
    std::deque<Entry> entries_;  // oldest first
    std::weak_ptr<const PartialState> arriving_;
};

}  // namespace dedloc::state
