// The download from co-downloaders: peers that load the same state at the same time.
//
// One after the other is asked what it has, and gives what we lack of that. Providers meanwhile are
// asked for what fewest co-downloaders have (Download::claim), so that each chunk leaves a provider
// about once and the newcomers' own lines do the rest. A co-downloader with nothing to give is no
// fault of its own: it is asked again later.

#include "dedloc/base/bits.h"
#include "dedloc/runtime/together.h"
#include "dedloc/state/download.h"

namespace dedloc::state {
namespace {

constexpr Duration answer_max = 10s;
constexpr Duration check_again = 1s;       // at a co-downloader, or at the next one
constexpr Duration provider_slow = 500ms;  // a chunk
constexpr Duration alone_max = 30s;        // without providers and without a chunk

}  // namespace

Task<void> Download::from_co_downloaders() {
    std::vector<Task<void>> slots;
    const std::size_t count = options_.co_downloaders ? options_.co_downloaders_at_once_max : 0;
    for (std::size_t i = 0; i < count; ++i) slots.push_back(co_downloader_slot());
    co_await runtime::all_of(std::move(slots));
    co_await done_.wait();
}

Task<void> Download::co_downloader_slot() {
    while (!finished()) {
        const std::optional<PeerId> co_downloader = next_co_downloader();
        if (co_downloader) {
            co_downloader_asked_[*co_downloader] = TimePoint::never();
            const bool knows = co_await learn_chunks_of(*co_downloader);
            if (knows) co_await take_from(*co_downloader);
            co_downloader_asked_[*co_downloader] = clock_.now();
        } else {
            co_await clock_.sleep_for(check_again);
        }
    }
}

// A peer that an earlier download has dropped is asked once more, as with providers; but no liar.
bool Download::may_ask(const PeerId& co_downloader) const {
    if (std::ranges::count(providers_, co_downloader) > 0) return false;
    const auto known = partial_.providers_.find(co_downloader);
    if (known == partial_.providers_.end()) return true;
    return co_downloader_asked_.contains(co_downloader) ? !known->second.dropped
                                                        : !known->second.lied;
}

// The co-downloader not asked for longest; those who never were, from another one on than others
// begin with.
std::optional<PeerId> Download::next_co_downloader() {
    std::vector<PeerId> co_downloaders = options_.co_downloaders();
    std::ranges::sort(co_downloaders);
    const auto after_us = std::ranges::upper_bound(co_downloaders, host_.id());
    std::ranges::rotate(co_downloaders, after_us);
    std::optional<PeerId> next;
    TimePoint longest = clock_.now() - check_again;
    for (const PeerId& co_downloader : co_downloaders) {
        if (!may_ask(co_downloader)) continue;
        const auto [asked, is_new] =
            co_downloader_asked_.try_emplace(co_downloader, TimePoint{Duration::min()});
        if (is_new) report(co_downloader).dropped = false;
        if (asked->second >= longest) continue;
        next = co_downloader;
        longest = asked->second;
    }
    return next;
}

Task<bool> Download::learn_chunks_of(PeerId co_downloader) {
    Bytes request = wire::encode(StateRequest{.root = partial_.root()});
    const TimePoint until = std::min(options_.deadline, clock_.now() + answer_max);
    const auto answer = co_await host_.call(co_downloader, have_method, std::move(request), until);
    co_downloaders_.erase(co_downloader);
    if (!answer) {
        if (answer.error().kind() != ErrorKind::not_found) strike(co_downloader, 1, answer.error());
        co_return false;
    }
    auto reply = wire::decode<HaveReply>(*answer);
    const std::size_t bytes = base::bits_bytes(manifest_->chunks_count());
    if (!reply || reply->bits.size() > bytes || reply->coming.size() > bytes) {
        drop(co_downloader,
             make_error(ErrorKind::peer_broke_protocol, "what it has cannot be read"));
        co_return false;
    }
    if (!co_downloader_gave_at_) co_downloader_gave_at_ = clock_.now();
    co_downloaders_.emplace(co_downloader,
                            CoDownloader{std::move(reply->bits), std::move(reply->coming)});
    co_return true;
}

Task<void> Download::take_from(PeerId co_downloader) {
    Stream stream;
    const Bytes has = co_downloaders_.at(co_downloader).has;
    while (!finished() && !report(co_downloader).dropped) {
        const std::optional<std::size_t> index = claim(co_downloader, &has);
        if (!index) co_return;
        Result<Bytes> chunk = co_await fetch(stream, co_downloader, *index);
        if (chunk) {
            co_downloader_gave_at_ = clock_.now();
            co_await receive_chunk(co_downloader, *index, *std::move(chunk));
        }
        release(*index);
        if (chunk) continue;
        const ErrorKind kind = chunk.error().kind();
        // The peer is asked by others as well, or has given the state up.
        if (kind == ErrorKind::overloaded || kind == ErrorKind::not_found) co_return;
        (void)after_failure(co_downloader, chunk.error(), false);
        co_return;
    }
}

// Without providers co-downloaders may have the rest among them.
Task<void> Download::until_co_downloaders_end() {
    TimePoint came_at = clock_.now();
    while (!finished() && co_downloaders_left() && clock_.now() < came_at + alone_max) {
        const std::uint64_t seen = arrivals_;
        co_await clock_.sleep_for(check_again);
        if (arrivals_ != seen) came_at = clock_.now();
    }
}

// True while some load this state too, as far as we know: those who said that they have nothing of
// it have got it, or went on to another one.
bool Download::co_downloaders_left() const {
    if (!options_.co_downloaders) return false;
    return std::ranges::any_of(options_.co_downloaders(), [this](const PeerId& co_downloader) {
        if (!may_ask(co_downloader)) return false;
        const auto asked = co_downloader_asked_.find(co_downloader);
        const bool answered =
            asked != co_downloader_asked_.end() && asked->second != TimePoint::never();
        return !answered || co_downloaders_.contains(co_downloader);
    });
}

std::size_t Download::co_downloaders_with(std::size_t index) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(co_downloaders_, [index](const auto& entry) {
            return base::has_bit(entry.second.has, index) ||
                   base::has_bit(entry.second.expects, index);
        }));
}

// A chunk that co-downloaders have or are about to have is not asked of a provider whose line is
// slow, or which many ask, as long as they give.
bool Download::leaves_to_co_downloaders() const {
    return co_downloader_gave_at_ && provider_time_ > provider_slow &&
           clock_.now() < *co_downloader_gave_at_ + 2 * provider_time_;
}

}  // namespace dedloc::state
