// The downloading half of transfer.h.
//
// Providers work off one queue of missing chunks, so each gives what it can. When the queue is
// empty, an idle lane asks for a chunk that another provider owes for twice the usual time, so that
// the slowest provider does not decide when the last chunk comes.

#include "dedloc/state/download.h"

#include "dedloc/base/bits.h"
#include "dedloc/base/log.h"
#include "dedloc/runtime/deadline.h"
#include "dedloc/runtime/together.h"

namespace dedloc::state {

namespace {

constexpr std::size_t manifest_askers = 3;
constexpr std::uint32_t strikes_max = 8;
// A peer that gave chunks and was lost may be back: a connection breaks, a router begins anew.
// Where nobody is connected it is our own line that is down.
constexpr Duration gone_timeout = 20s;
constexpr Duration cut_off_timeout = 3min;
constexpr int refusals_max = 20;         // "overloaded" in a row, about a minute
constexpr Duration lane_idle_max = 10s;  // a provider closes it later, as if we were gone
constexpr Duration back_off_min = 200ms;
constexpr Duration back_off_max = 5s;
constexpr int timeout_factor = 4;  // of the usual time of a chunk
constexpr std::size_t troubles_told_max = 5;

}  // namespace

// ---- PartialState

void PartialState::begin(Manifest manifest) {
    // The count belongs to another download, if one was completed: its bytes went with the state.
    have_.assign(manifest.chunks_count(), false);
    chunks_have_ = 0;
    bytes_have_ = 0;
    manifest_ = std::move(manifest);
}

std::string PartialState::chunk_path(std::size_t index) const {
    return fmt::format("{}/chunk-{:06}", folder_, index);
}

Ok PartialState::add(std::size_t index, Bytes chunk) {
    if (has(index)) return {};
    if (!builder_ && index == 0) {
        DEDLOC_TRY(SnapshotBuilder builder, SnapshotBuilder::begin(chunk, manifest_->bytes));
        builder_ = std::move(builder);
        for (const auto& [early, bytes] : early_)
            builder_->write(manifest_->chunk_offset(early), bytes);
        early_.clear();
    }
    have_[index] = true;
    ++chunks_have_;
    bytes_have_ += chunk.size();
    if (builder_)
        builder_->write(manifest_->chunk_offset(index), chunk);
    else
        early_.emplace(index, std::move(chunk));
    return {};
}

Bytes PartialState::chunk(std::size_t index) const {
    DEDLOC_CHECK(has(index) && manifest_);
    const auto early = early_.find(index);
    if (early != early_.end()) return early->second;
    Bytes bytes(manifest_->chunk_size(index));
    builder_->read(manifest_->chunk_offset(index), bytes);
    return bytes;
}

// ---- Download

void Download::drop(const PeerId& provider, const Error& error) {
    ProviderReport& about = report(provider);
    about.dropped = true;
    about.trouble = to_string(error);
    log(LogLevel::debug, "state", "provider {} dropped: {}", provider.short_text(), about.trouble);
    changed_.pulse();  // who let it go first
}

void Download::strike(const PeerId& provider, std::uint32_t count, const Error& error) {
    ProviderReport& about = report(provider);
    ++about.failures;
    about.trouble = to_string(error);
    Conduct& conduct = conduct_[provider];
    conduct.strikes += count;
    if (conduct.strikes >= strikes_max) drop(provider, error);
}

bool Download::may_come_back(const PeerId& provider) {
    if (report(provider).chunks == 0) return false;
    std::optional<TimePoint>& gone_at = conduct_[provider].gone_at;
    if (!gone_at) gone_at = clock_.now();
    const bool cut_off = host_.connected_peers().empty();
    return clock_.now() - *gone_at < (cut_off ? cut_off_timeout : gone_timeout);
}

void Download::tell_progress() {
    if (!options_.progress) return;
    std::size_t live = 0;
    for (const PeerId& provider : providers_) live += report(provider).dropped ? 0u : 1u;
    const DownloadProgress progress{.bytes_have = partial_.bytes_have(),
                                    .bytes_total = partial_.bytes_total(),
                                    .providers_live = live};
    options_.progress(progress);
}

Error Download::no_provider_left() const {
    std::string why;
    std::size_t told = 0;
    bool unknown_to_all = true;
    for (const PeerId& provider : providers_) {
        const auto found = partial_.providers_.find(provider);
        if (found == partial_.providers_.end()) continue;
        const std::string& trouble = found->second.trouble;
        if (!trouble.starts_with(base::to_string(ErrorKind::not_found))) unknown_to_all = false;
        if (told++ < troubles_told_max)
            why += fmt::format("; {}: {}", provider.short_text(), trouble);
    }
    return make_error(unknown_to_all ? ErrorKind::not_found : ErrorKind::peer_gone,
                      "no provider is left for state {} ({} of {} bytes are here){}",
                      partial_.root().short_hex(),
                      partial_.bytes_have(),
                      partial_.bytes_total(),
                      told == 0 ? "; none was named" : why);
}

Task<Result<std::shared_ptr<const PublishedState>>> Download::run() {
    for (const PeerId& provider : providers_) {
        ProviderReport& about = report(provider);
        about.dropped = about.lied;  // a liar stays out, others get a new chance
    }
    co_await read_disk();
    if (!partial_.manifest_) {
        std::vector<Task<void>> askers;
        for (std::size_t i = 0; i < manifest_askers; ++i) askers.push_back(ask_manifests());
        Task<void> asking = runtime::all_of(std::move(askers));
        co_await runtime::first_of(std::move(asking), done_.wait());
        if (!partial_.manifest_) co_return failure_ ? *failure_ : no_provider_left();
        if (partial_.disk_) {
            auto save = [disk = partial_.disk_,
                         path = partial_.folder_ + "/manifest",
                         bytes = wire::encode(*partial_.manifest_)] {
                (void)disk->write_atomically(path, bytes);  // only a convenience
            };
            co_await workers_.run(std::move(save));
        }
    }
    if (partial_.manifest_->bytes > options_.bytes_max)
        co_return make_error(ErrorKind::bad_input,
                             "state {} has {} bytes, at most {} are allowed here",
                             partial_.root().short_hex(),
                             partial_.manifest_->bytes,
                             options_.bytes_max);
    done_.reset();
    next_provider_ = 0;
    partial_.coming_.clear();  // of a download that was cancelled
    manifest_ = std::make_shared<const Manifest>(*partial_.manifest_);
    queue_missing();
    if (!partial_.complete()) {
        Task<void> working = runtime::first_of(from_providers(), from_co_downloaders());
        Task<void> ending = runtime::first_of(std::move(working), done_.wait());
        co_await runtime::first_of(std::move(ending), until_stalled());
    }
    if (failure_) co_return *failure_;
    if (!partial_.complete()) co_return no_provider_left();
    co_return co_await finish();
}

Task<Result<std::shared_ptr<const PublishedState>>> Download::finish() {
    auto state = std::make_shared<PublishedState>();
    state->manifest = std::move(*partial_.manifest_);
    state->snapshot = (*std::move(partial_.builder_)).finish();
    partial_.builder_.reset();
    partial_.manifest_.reset();
    partial_.have_.clear();
    if (partial_.disk_) {
        auto tidy = [disk = partial_.disk_, folder = partial_.folder_] {
            (void)disk->remove(folder);  // what stays is overwritten next time
        };
        co_await workers_.run(std::move(tidy));
    }
    co_return std::shared_ptr<const PublishedState>(std::move(state));
}

// Reads what an earlier process left; anything that does not verify is ignored and downloaded
// again.
Task<void> Download::read_disk() {
    if (!partial_.disk_ || partial_.disk_was_read_) co_return;
    partial_.disk_was_read_ = true;
    runtime::Disk* disk = partial_.disk_;
    auto read_manifest = [disk, path = partial_.folder_ + "/manifest"] { return disk->read(path); };
    Result<Bytes> bytes = co_await workers_.run(std::move(read_manifest));
    if (!bytes) co_return;
    auto manifest = wire::decode<Manifest>(*bytes);
    if (!manifest || !manifest->verify(partial_.root())) co_return;
    partial_.begin(*manifest);
    for (std::size_t i = 0; i < manifest->chunks_count(); ++i) {
        auto read_chunk = [disk, path = partial_.chunk_path(i), i, proof = *manifest] {
            Result<Bytes> chunk = disk->read(path);
            return chunk && proof.holds(i, *chunk) ? std::move(chunk)
                                                   : make_error(ErrorKind::not_found, "no chunk");
        };
        Result<Bytes> chunk = co_await workers_.run(std::move(read_chunk));
        if (chunk && !partial_.add(i, *std::move(chunk))) co_return;
    }
}

Task<void> Download::ask_manifests() {
    const Bytes request = wire::encode(StateRequest{.root = partial_.root()});
    while (!finished() && !partial_.manifest_ && next_provider_ < providers_.size()) {
        const PeerId provider = providers_[next_provider_++];
        if (report(provider).dropped) continue;
        const TimePoint until =
            std::min(options_.deadline, clock_.now() + options_.manifest_timeout);
        const Result<Bytes> answer = co_await host_.call(provider, manifest_method, request, until);
        if (partial_.manifest_) co_return;
        if (Ok taken = receive_manifest(provider, answer); !taken) {
            // A provider that is only slow or busy may still give chunks.
            const ErrorKind kind = taken.error().kind();
            if (kind == ErrorKind::timeout || kind == ErrorKind::overloaded)
                strike(provider, 2, taken.error());
            else
                drop(provider, taken.error());
        }
    }
}

Ok Download::receive_manifest(const PeerId& provider, const Result<Bytes>& answer) {
    if (!answer) return answer.error();
    auto manifest = wire::decode<Manifest>(*answer);
    Ok verified = manifest ? manifest->verify(partial_.root()) : Ok(manifest.error());
    if (!verified) {
        report(provider).lied = true;
        return make_error(ErrorKind::peer_broke_protocol,
                          "provider {} sent a false manifest: {}",
                          provider.short_text(),
                          verified.error().message());
    }
    partial_.begin(*std::move(manifest));
    done_.set();
    return {};
}

Task<void> Download::until_stalled() {
    std::uint64_t seen = arrivals_;
    while (true) {
        co_await clock_.sleep_for(options_.stall_max);
        if (arrivals_ == seen) break;
        seen = arrivals_;
    }
    if (finished()) co_return;
    failure_ = make_error(ErrorKind::timeout,
                          "nothing more of state {} came in {:.0f} s ({} of {} bytes are here)",
                          partial_.root().short_hex(),
                          to_seconds(options_.stall_max),
                          partial_.bytes_have(),
                          partial_.bytes_total());
}

// The first chunk says how large the sections are; until it is here the others are kept beside. Of
// the rest co-downloaders begin with different ones.
void Download::queue_missing() {
    for (std::size_t i = 0; i < manifest_->chunks_count(); ++i)
        if (!partial_.has(i)) missing_.push_back(i);
    if (missing_.size() < 2 || !options_.co_downloaders) return;
    const auto rest = missing_.begin() + (missing_.front() == 0 ? 1 : 0);
    const auto count = static_cast<std::size_t>(missing_.end() - rest);
    const std::size_t first = std::hash<PeerId>{}(host_.id()) % count;
    std::rotate(rest, rest + static_cast<std::ptrdiff_t>(first), missing_.end());
}

Task<void> Download::from_providers() {
    std::vector<Task<void>> slots;
    const std::size_t count = std::min(providers_.size(), options_.providers_at_once_max);
    for (std::size_t i = 0; i < count; ++i) slots.push_back(provider_slot());
    co_await runtime::all_of(std::move(slots));
    co_await until_co_downloaders_end();
}

// One of the places for providers: when its provider has ended, the next one takes it.
Task<void> Download::provider_slot() {
    while (!finished() && next_provider_ < providers_.size()) {
        const PeerId provider = providers_[next_provider_++];
        if (report(provider).dropped) continue;
        std::vector<Task<void>> lanes;
        for (std::size_t i = 0; i < options_.lanes_per_provider; ++i)
            lanes.push_back(lane(provider));
        co_await runtime::all_of(std::move(lanes));
    }
}

// The chunk that fewest co-downloaders have. A provider has everything; of a co-downloader what it
// has.
std::deque<std::size_t>::iterator Download::rarest_missing(const Bytes* of_co_downloader) {
    auto rarest = missing_.end();
    std::size_t fewest = 0;
    for (auto it = missing_.begin(); it != missing_.end(); ++it) {
        if (of_co_downloader && !base::has_bit(*of_co_downloader, *it)) continue;
        const std::size_t co_downloaders = co_downloaders_with(*it);
        if (rarest == missing_.end() || co_downloaders < fewest) {
            rarest = it;
            fewest = co_downloaders;
        }
        if (co_downloaders_.empty() || *rarest == 0)
            break;  // all are alike; the first one comes first
    }
    return rarest;
}

std::optional<std::size_t> Download::claim(const PeerId& provider, const Bytes* of_co_downloader) {
    if (!allowance_.may_ask() || (!of_co_downloader && lets_others_go_first(provider)))
        return std::nullopt;
    const TimePoint now = clock_.now();
    std::erase_if(missing_, [this](std::size_t index) { return partial_.has(index); });
    const auto rarest = rarest_missing(of_co_downloader);
    const bool left = !of_co_downloader && leaves_to_co_downloaders() && rarest != missing_.end() &&
                      co_downloaders_with(*rarest) > 0;
    if (rarest != missing_.end() && !left) {
        const std::size_t index = *rarest;
        missing_.erase(rarest);
        claims_[index] = Claim{.count = 1, .since = now, .first = provider};
        if (!of_co_downloader) partial_.coming_.insert(index);
        allowance_.asked();
        return index;
    }
    for (auto& [index, claim] : claims_) {
        if (claim.count != 1 || claim.first == provider || claim.since + claim_timeout() > now)
            continue;
        if (partial_.has(index) || (of_co_downloader && !base::has_bit(*of_co_downloader, index)))
            continue;
        ++claim.count;
        allowance_.asked();
        return index;
    }
    return std::nullopt;
}

// Where only one chunk is asked for at a time, each provider has its turn: a silent one would have
// the line for as long as a slow one needs, and again and again.
bool Download::lets_others_go_first(const PeerId& provider) const {
    if (!allowance_.is_one_at_a_time()) return false;
    const auto mine = conduct_.find(provider);
    if (mine == conduct_.end() || !mine->second.failed_at) return false;
    return std::ranges::any_of(conduct_, [&](const auto& entry) {
        const auto& [other, theirs] = entry;
        if (theirs.lanes == 0 || is_dropped(other)) return false;
        return !theirs.failed_at || *theirs.failed_at < *mine->second.failed_at;
    });
}

// When this provider may ask for what another one owes, or is left to co-downloaders; never() for
// neither.
TimePoint Download::next_claim(const PeerId& provider) const {
    TimePoint next = TimePoint::never();
    if (!allowance_.may_ask()) return next;
    if (!missing_.empty() && leaves_to_co_downloaders())
        next = *co_downloader_gave_at_ + 2 * provider_time_;
    for (const auto& [index, claim] : claims_)
        if (claim.count == 1 && claim.first != provider && !partial_.has(index))
            next = std::min(next, claim.since + claim_timeout());
    return next;
}

void Download::release(std::size_t index) {
    allowance_.ended();
    const auto claim = claims_.find(index);
    if (--claim->second.count == 0) {
        claims_.erase(claim);
        partial_.coming_.erase(index);
        if (!partial_.has(index)) missing_.push_front(index);
    }
    changed_.pulse();
}

Task<void> Download::lane(PeerId provider) {
    Stream stream;
    Duration back_off = back_off_min;
    TimePoint used_at = clock_.now();
    ++conduct_[provider].lanes;
    while (!finished() && !report(provider).dropped) {
        const std::optional<std::size_t> index = claim(provider, nullptr);
        if (!index) {
            (void)co_await changed_.wait_until(clock_, next_claim(provider));
            if (clock_.now() > used_at + lane_idle_max) stream.reset();
            continue;
        }
        used_at = clock_.now();
        const std::uint64_t arrivals_before = providers_arrivals_;
        const TimePoint begun = clock_.now();
        Result<Bytes> chunk = co_await fetch(stream, provider, *index);
        if (chunk) {
            const Duration took = clock_.now() - begun;
            chunk_time_ = smoothed(chunk_time_, took);
            provider_time_ = smoothed(provider_time_, took);
            back_off = back_off_min;
            Conduct& conduct = conduct_[provider];
            conduct.refusals = 0;
            conduct.strikes = 0;
            conduct.gone_at.reset();
            ++providers_arrivals_;
            co_await receive_chunk(provider, *index, *std::move(chunk));
            release(*index);
            continue;
        }
        stream.reset();
        const Error error = std::move(chunk).error();
        conduct_[provider].failed_at = clock_.now();
        release(*index);
        const bool alone = providers_arrivals_ == arrivals_before;
        if (!after_failure(provider, error, alone)) co_return;
        co_await clock_.sleep_for(back_off);
        back_off = std::min(back_off * 2, back_off_max);
    }
}

bool Download::after_failure(const PeerId& provider, const Error& error, bool nothing_came) {
    Conduct& conduct = conduct_[provider];
    switch (error.kind()) {
        case ErrorKind::overloaded:
            report(provider).trouble = to_string(error);
            conduct.gone_at.reset();
            // Fewer lanes than we asked for. With the last one we wait for our turn, unless there
            // are others to ask.
            if (conduct.lanes > 1) {
                --conduct.lanes;
                return false;
            }
            tell_progress();
            if (++conduct.refusals > refusals_max && next_provider_ < providers_.size())
                drop(provider, error);
            return true;
        case ErrorKind::timeout:
            if (nothing_came) {
                allowance_.less(clock_.now());
                strike(provider, 1, error);
            } else {
                strike(provider, 4, error);
            }
            return true;
        case ErrorKind::denied:  // a new connection on which hello is still under way
        case ErrorKind::peer_gone:
            if (may_come_back(provider))
                strike(provider, 0, error);
            else
                strike(provider, 2, error);
            return true;
        default:
            drop(provider, error);
            return false;
    }
}

Task<Result<Bytes>> Download::fetch(Stream& stream, PeerId provider, std::size_t index) {
    // Where chunks take long, a little longer is no fault: what is given up must be sent again.
    const Duration usual = std::min(timeout_factor * chunk_time_, chunk_timeout_max);
    const Duration timeout = std::max(allowance_.timeout(), usual);
    const TimePoint until = std::min(options_.deadline, clock_.now() + timeout);
    std::string what = fmt::format(
        "chunk {} of state {} from {}", index, partial_.root().short_hex(), provider.short_text());
    Task<Result<Bytes>> exchanging = exchange(stream, provider, index, until);
    co_return co_await runtime::with_deadline(
        clock_, until, std::move(what), std::move(exchanging));
}

Task<Result<Bytes>> Download::exchange(Stream& stream,
                                       PeerId provider,
                                       std::size_t index,
                                       TimePoint until) {
    if (!stream) {
        DEDLOC_CO_TRY(stream, co_await host_.open_stream(provider, chunk_method, until));
    }
    const ChunkRequest request{.root = partial_.root(), .index = index};
    Bytes encoded = wire::encode(request);
    const Result<void> written = co_await stream->write(std::move(encoded));
    // A provider that refuses has said why before it closed: read that.
    auto answer = co_await stream->read();
    if (!answer) co_return std::move(answer).error();
    if (!written) co_return written.error();
    if (!answer->has_value())
        co_return make_error(
            ErrorKind::peer_gone, "provider {} closed the stream", provider.short_text());
    co_return to_bytes(**answer);
}

Task<void> Download::receive_chunk(PeerId provider, std::size_t index, Bytes chunk) {
    auto verify = [manifest = manifest_, index, bytes = std::move(chunk)]() mutable {
        return manifest->holds(index, bytes) ? std::optional<Bytes>(std::move(bytes))
                                             : std::optional<Bytes>();
    };
    std::optional<Bytes> good = co_await workers_.run(std::move(verify));
    if (!good) {
        report(provider).lied = true;
        drop(provider,
             make_error(ErrorKind::peer_broke_protocol,
                        "provider {} sent false bytes for chunk {}",
                        provider.short_text(),
                        index));
        co_return;
    }
    if (partial_.has(index)) co_return;
    if (partial_.disk_) {
        auto save = [disk = partial_.disk_, path = partial_.chunk_path(index), bytes = *good] {
            return disk->write_atomically(path, bytes);
        };
        const Result<void> saved = co_await workers_.run(std::move(save));
        if (!saved) {
            // The download does not need the disk; only a restart would have.
            log(LogLevel::warning, "state", "partial state not kept: {}", saved.error().message());
            partial_.disk_ = nullptr;
        }
        if (partial_.has(index)) co_return;
    }
    allowance_.more();
    ++arrivals_;
    ProviderReport& about = report(provider);
    ++about.chunks;
    about.bytes += good->size();
    if (Ok added = partial_.add(index, *std::move(good)); !added)
        failure_ = added.error().with_context("the state with that hash is not usable");
    tell_progress();
    if (finished()) done_.set();
}

Task<Result<std::shared_ptr<const PublishedState>>> download(p2p::Host& host,
                                                             runtime::Workers& workers,
                                                             PartialState& partial,
                                                             std::vector<PeerId> providers,
                                                             DownloadOptions options) {
    const TimePoint deadline = options.deadline;
    std::string what = fmt::format("the download of state {}", partial.root().short_hex());
    Download job(host, workers, partial, std::move(providers), std::move(options));
    Task<Result<std::shared_ptr<const PublishedState>>> running = job.run();
    co_return co_await runtime::with_deadline(
        host.clock(), deadline, std::move(what), std::move(running));
}

}  // namespace dedloc::state
