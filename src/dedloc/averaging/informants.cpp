#include "dedloc/averaging/informants.h"

#include <algorithm>
#include <utility>

namespace dedloc::averaging {
namespace {

// That are to be asked; the others come up again by themselves.
constexpr std::size_t informants_max = 64;

}  // namespace

Informants::Informants(runtime::Executor executor, runtime::Clock& clock, InformantsOptions options)
    : clock_(clock), options_(std::move(options)), changed_(executor), scope_(executor) {}

void Informants::start() { scope_.spawn("ask informants", run()); }

Task<void> Informants::stop() { return scope_.stop(); }

void Informants::add(const PeerId& peer) {
    if (waiting_.size() < informants_max && waiting_.insert(peer).second) changed_.pulse();
}

// In turn: one that is named again and again must not hide the others.
std::set<PeerId>::const_iterator Informants::next() const {
    const auto is_free = [this](const PeerId& peer) { return !asked_.contains(peer); };
    const auto after = waiting_.upper_bound(last_);
    const auto found = std::find_if(after, waiting_.end(), is_free);
    if (found != waiting_.end()) return found;
    const auto before = std::find_if(waiting_.begin(), after, is_free);
    return before == after ? waiting_.end() : before;
}

Task<void> Informants::run() {
    for (;;) {
        const auto found = next();
        if (found == waiting_.end()) {
            co_await changed_.wait();
            continue;
        }
        last_ = *found;
        waiting_.erase(found);
        asked_.insert(last_);
        scope_.spawn("ask an informant", ask(last_));
        const TimePoint until = clock_.now() + options_.patience();
        while (asked_.contains(last_) && clock_.now() < until)
            (void)co_await changed_.wait_until(clock_, until);
    }
}

Task<void> Informants::ask(PeerId peer) {
    co_await options_.ask(peer);
    asked_.erase(peer);
    changed_.pulse();
}

}  // namespace dedloc::averaging
