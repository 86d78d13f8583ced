// The download from fellows: peers that load the same state at the same time.
//
// One after the other is asked what it has, and gives what we lack of that. Donors meanwhile are
// asked for what fewest fellows have (Download::claim), so that each chunk leaves a donor about
// once and the newcomers' own lines do the rest. A fellow with nothing to give is no fault of its
// own: it is asked again later.

#include "dedloc/base/bits.h"
#include "dedloc/runtime/together.h"
#include "dedloc/state/download.h"

namespace dedloc::state {
namespace {

constexpr Duration answer_max = 10s;
constexpr Duration look_again = 1s;     // at a fellow, or at the next one
constexpr Duration donor_slow = 500ms;  // a chunk
constexpr Duration alone_max = 30s;     // without donors and without a chunk

}  // namespace

Task<void> Download::from_fellows() {
    std::vector<Task<void>> slots;
    const std::size_t count = options_.fellows ? options_.fellows_at_once_max : 0;
    for (std::size_t i = 0; i < count; ++i) slots.push_back(fellow_slot());
    co_await runtime::all_of(std::move(slots));
    co_await done_.wait();
}

Task<void> Download::fellow_slot() {
    while (!finished()) {
        const std::optional<PeerId> fellow = next_fellow();
        if (fellow) {
            fellow_asked_[*fellow] = TimePoint::never();
            const bool knows = co_await learn_chunks_of(*fellow);
            if (knows) co_await take_from(*fellow);
            fellow_asked_[*fellow] = clock_.now();
        } else {
            co_await clock_.sleep_for(look_again);
        }
    }
}

// Whom an earlier download has dropped is asked once more, as with donors; but no liar.
bool Download::may_ask(const PeerId& fellow) const {
    if (std::ranges::count(donors_, fellow) > 0) return false;
    const auto known = partial_.donors_.find(fellow);
    if (known == partial_.donors_.end()) return true;
    return fellow_asked_.contains(fellow) ? !known->second.dropped : !known->second.lied;
}

// The fellow not asked for longest; those who never were, from another one on than others begin
// with.
std::optional<PeerId> Download::next_fellow() {
    std::vector<PeerId> fellows = options_.fellows();
    std::ranges::sort(fellows);
    const auto after_us = std::ranges::upper_bound(fellows, host_.id());
    std::ranges::rotate(fellows, after_us);
    std::optional<PeerId> next;
    TimePoint longest = clock_.now() - look_again;
    for (const PeerId& fellow : fellows) {
        if (!may_ask(fellow)) continue;
        const auto [asked, is_new] = fellow_asked_.try_emplace(fellow, TimePoint{Duration::min()});
        if (is_new) report(fellow).dropped = false;
        if (asked->second >= longest) continue;
        next = fellow;
        longest = asked->second;
    }
    return next;
}

Task<bool> Download::learn_chunks_of(PeerId fellow) {
    Bytes request = wire::encode(StateRequest{.root = partial_.root()});
    const TimePoint until = std::min(options_.deadline, clock_.now() + answer_max);
    const auto answer = co_await host_.call(fellow, have_method, std::move(request), until);
    fellows_.erase(fellow);
    if (!answer) {
        if (answer.error().kind() != ErrorKind::not_found) strike(fellow, 1, answer.error());
        co_return false;
    }
    auto reply = wire::decode<HaveReply>(*answer);
    const std::size_t bytes = base::bits_bytes(manifest_->chunks_count());
    if (!reply || reply->bits.size() > bytes || reply->coming.size() > bytes) {
        drop(fellow, make_error(ErrorKind::peer_broke_protocol, "what it has cannot be read"));
        co_return false;
    }
    if (!fellow_gave_at_) fellow_gave_at_ = clock_.now();
    fellows_.emplace(fellow, Fellow{std::move(reply->bits), std::move(reply->coming)});
    co_return true;
}

Task<void> Download::take_from(PeerId fellow) {
    Stream stream;
    const Bytes has = fellows_.at(fellow).has;
    while (!finished() && !report(fellow).dropped) {
        const std::optional<std::size_t> index = claim(fellow, &has);
        if (!index) co_return;
        Result<Bytes> chunk = co_await fetch(stream, fellow, *index);
        if (chunk) {
            fellow_gave_at_ = clock_.now();
            co_await take_chunk(fellow, *index, *std::move(chunk));
        }
        release(*index);
        if (chunk) continue;
        const ErrorKind kind = chunk.error().kind();
        // It is asked by others as well, or has given the state up.
        if (kind == ErrorKind::overloaded || kind == ErrorKind::not_found) co_return;
        (void)after_failure(fellow, chunk.error(), false);
        co_return;
    }
}

// Without donors fellows may have the rest among them.
Task<void> Download::until_fellows_end() {
    TimePoint came_at = clock_.now();
    while (!finished() && fellows_left() && clock_.now() < came_at + alone_max) {
        const std::uint64_t seen = arrivals_;
        co_await clock_.sleep_for(look_again);
        if (arrivals_ != seen) came_at = clock_.now();
    }
}

// True while some load this state too, as far as we know: those who said that they have nothing of
// it have got it, or went on to another one.
bool Download::fellows_left() const {
    if (!options_.fellows) return false;
    return std::ranges::any_of(options_.fellows(), [this](const PeerId& fellow) {
        if (!may_ask(fellow)) return false;
        const auto asked = fellow_asked_.find(fellow);
        const bool answered = asked != fellow_asked_.end() && asked->second != TimePoint::never();
        return !answered || fellows_.contains(fellow);
    });
}

std::size_t Download::fellows_with(std::size_t index) const {
    return static_cast<std::size_t>(std::ranges::count_if(fellows_, [index](const auto& entry) {
        return base::has_bit(entry.second.has, index) || base::has_bit(entry.second.expects, index);
    }));
}

// A chunk that fellows have or are about to have is not asked of a donor whose line is slow, or
// which many ask, as long as they give.
bool Download::leaves_to_fellows() const {
    return fellow_gave_at_ && donor_time_ > donor_slow &&
           clock_.now() < *fellow_gave_at_ + 2 * donor_time_;
}

}  // namespace dedloc::state
