// The downloading half of transfer.h, as a class: download.cpp takes chunks from providers,
// co_downloaders.cpp from peers that download the same state at the same time. Private to the room.

#pragma once
#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "dedloc/runtime/event.h"
#include "dedloc/state/chunk_allowance.h"
#include "dedloc/state/state_messages.h"
#include "dedloc/state/transfer.h"

namespace dedloc::state {

inline constexpr Duration chunk_time_guess = 2s;

class Download {
  public:
    Download(p2p::Host& host,
             runtime::Workers& workers,
             PartialState& partial,
             std::vector<PeerId> providers,
             DownloadOptions options)
        : host_(host),
          clock_(host.clock()),
          workers_(workers),
          partial_(partial),
          providers_(std::move(providers)),
          options_(std::move(options)),
          allowance_(options_.chunk_timeout),
          changed_(host.executor()),
          done_(host.executor()) {}

    Task<Result<std::shared_ptr<const PublishedState>>> run();

  private:
    using Stream = std::unique_ptr<p2p::MessageStream>;
    struct Claim {
        std::size_t count = 0;
        TimePoint since{};
        PeerId first;
    };
    // One peer that gives, as this download has seen it.
    struct Conduct {
        std::uint32_t strikes = 0;
        int refusals = 0;                    // in a row
        std::size_t lanes = 0;               // that have not ended
        std::optional<TimePoint> failed_at;  // the newest chunk that did not come
        std::optional<TimePoint> gone_at;    // lost after its newest chunk, first
    };

    ProviderReport& report(const PeerId& provider) { return partial_.providers_[provider]; }
    bool is_dropped(const PeerId& peer) const {
        const auto known = partial_.providers_.find(peer);
        return known != partial_.providers_.end() && known->second.dropped;
    }
    bool finished() const { return failure_.has_value() || partial_.complete(); }
    void drop(const PeerId& provider, const Error& error);
    void strike(const PeerId& provider, std::uint32_t count, const Error& error);
    bool may_come_back(const PeerId& provider);
    void tell_progress();
    Error no_provider_left() const;

    Task<void> read_disk();
    Task<void> ask_manifests();
    Ok receive_manifest(const PeerId& provider, const Result<Bytes>& answer);

    void queue_missing();
    Task<void> from_providers();
    Task<void> provider_slot();
    Task<void> until_stalled();
    Task<void> lane(PeerId provider);
    std::optional<std::size_t> claim(const PeerId& provider, const Bytes* of_co_downloader);
    bool lets_others_go_first(const PeerId& provider) const;
    std::deque<std::size_t>::iterator rarest_missing(const Bytes* of_co_downloader);
    bool leaves_to_co_downloaders() const;
    void release(std::size_t index);
    TimePoint next_claim(const PeerId& provider) const;
    Duration claim_timeout() const { return 2 * chunk_time_; }
    Task<Result<Bytes>> fetch(Stream& stream, PeerId provider, std::size_t index);
    Task<Result<Bytes>> exchange(Stream& stream,
                                 PeerId provider,
                                 std::size_t index,
                                 TimePoint until);
    Task<void> receive_chunk(PeerId provider, std::size_t index, Bytes chunk);
    // False: this lane ends.
    bool after_failure(const PeerId& provider, const Error& error, bool nothing_came);
    Task<Result<std::shared_ptr<const PublishedState>>> finish();

    // co_downloaders.cpp
    Task<void> from_co_downloaders();
    Task<void> co_downloader_slot();
    std::optional<PeerId> next_co_downloader();
    Task<void> take_from(PeerId co_downloader);
    Task<bool> learn_chunks_of(PeerId co_downloader);
    Task<void> until_co_downloaders_end();
    bool co_downloaders_left() const;
    bool may_ask(const PeerId& co_downloader) const;
    std::size_t co_downloaders_with(std::size_t index) const;

    p2p::Host& host_;
    runtime::Clock& clock_;
    runtime::Workers& workers_;
    PartialState& partial_;
    std::vector<PeerId> providers_;
    DownloadOptions options_;
    ChunkAllowance allowance_;
    Duration chunk_time_ = chunk_time_guess;  // smoothed
    runtime::Event changed_;                  // pulsed: a chunk came, a claim was given back…
    runtime::Event done_;                     // set: nothing more to do
    std::shared_ptr<const Manifest> manifest_;
    std::deque<std::size_t> missing_;  // not claimed
    std::map<std::size_t, Claim> claims_;
    std::map<PeerId, Conduct> conduct_;
    std::size_t next_provider_ = 0;
    std::map<PeerId, TimePoint> co_downloader_asked_;  // never(): we ask, or take from it, just now
    struct CoDownloader {
        Bytes has;
        Bytes expects;  // from a provider
    };
    std::map<PeerId, CoDownloader> co_downloaders_;  // as they were when they were asked last
    Duration provider_time_{0};                      // of a chunk, smoothed; 0: none came yet
    // The newest chunk from a co-downloader, or when the first one was asked.
    std::optional<TimePoint> co_downloader_gave_at_;
    std::uint64_t arrivals_ = 0;
    std::uint64_t providers_arrivals_ = 0;  // without co-downloaders'
    std::optional<Error> failure_;
};

}  // namespace dedloc::state
