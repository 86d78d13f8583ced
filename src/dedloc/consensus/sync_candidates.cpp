#include "dedloc/consensus/sync_candidates.h"

#include <algorithm>
#include <utility>

namespace dedloc::consensus {
namespace {

// Peers that are to be asked; the others come up again by themselves.
constexpr std::size_t sync_candidates_max = 64;

}  // namespace

SyncCandidates::SyncCandidates(runtime::Executor executor,
                               runtime::Clock& clock,
                               SyncCandidatesOptions options)
    : clock_(clock), options_(std::move(options)), changed_(executor), scope_(executor) {}

void SyncCandidates::start() { scope_.spawn("ask sync candidates", run()); }

Task<void> SyncCandidates::stop() { return scope_.stop(); }

void SyncCandidates::add(const PeerId& peer) {
    if (waiting_.size() < sync_candidates_max && waiting_.insert(peer).second) changed_.pulse();
}

// In turn: one that is named again and again must not hide the others.
std::set<PeerId>::const_iterator SyncCandidates::next() const {
    const auto is_free = [this](const PeerId& peer) { return !asked_.contains(peer); };
    const auto after = waiting_.upper_bound(last_);
    const auto found = std::find_if(after, waiting_.end(), is_free);
    if (found != waiting_.end()) return found;
    const auto before = std::find_if(waiting_.begin(), after, is_free);
    return before == after ? waiting_.end() : before;
}

Task<void> SyncCandidates::run() {
    for (;;) {
        const auto found = next();
        if (found == waiting_.end()) {
            co_await changed_.wait();
            continue;
        }
        last_ = *found;
        waiting_.erase(found);
        asked_.insert(last_);
        scope_.spawn("ask a sync candidate", ask(last_));
        const TimePoint until = clock_.now() + options_.timeout();
        while (asked_.contains(last_) && clock_.now() < until)
            (void)co_await changed_.wait_until(clock_, until);
    }
}

Task<void> SyncCandidates::ask(PeerId peer) {
    co_await options_.ask(peer);
    asked_.erase(peer);
    changed_.pulse();
}

}  // namespace dedloc::consensus
