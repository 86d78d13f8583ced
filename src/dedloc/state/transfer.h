// State transfer: one peer serves the states in its store, another takes one from many at once.
//
// A downloader knows the root (the state hash the group agrees on) and trusts nobody for the
// rest: the manifest is checked against the root, every chunk against the manifest. Chunks come
// over streams, one request and one chunk at a time on each ("lane"), from up to
// providers_at_once_max providers; a provider that lies, stalls or dies is dropped and named in its
// ProviderReport. What has arrived stays in the PartialState: download again with it to go on.
//
// A downloading peer gives on what has arrived (SnapshotStore::set_arriving): peers that come at
// the same time, *co-downloaders*, take most of a state from each other, however slow the only
// provider's line is.
//
//   /dedloc/state/1/manifest   call    {1 root} -> Manifest
//   /dedloc/state/1/have       call    {1 root} -> {1 bits, 2 coming}, a bit for each chunk
//   /dedloc/state/1/chunk      stream  {1 root, 2 index} -> chunk bytes, repeated
// (docs/spec/state.md)
//
// A provider never waits: more lanes than ServeLimits allow are refused as overloaded, a reader
// that stalls loses its lane, and the lease in the store bounds how long an old state is kept.
//
// Errors: timeout (options.deadline, options.stall_max), peer_gone (no provider left; the sentence
// says why each failed),
//         not_found (nobody has that state), local_fault (partial state's disk).
// Cancel: what arrived is in the PartialState. Thread: the network thread; hashing on workers.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dedloc/p2p/host.h"
#include "dedloc/runtime/disk.h"
#include "dedloc/runtime/workers.h"
#include "dedloc/state/manifest.h"
#include "dedloc/state/store.h"

namespace dedloc::state {

inline constexpr char manifest_method[] = "/dedloc/state/1/manifest";
inline constexpr char have_method[] = "/dedloc/state/1/have";
inline constexpr char chunk_method[] = "/dedloc/state/1/chunk";

struct ServeLimits {
    // Each holds one chunk: 16 MiB. A provider begins with few, has one more after each chunk that
    // went out soon, and fewer after one that took long: of what gets to nobody in time all is in
    // vain.
    std::size_t lanes_max = 16;
    std::size_t lanes_at_first = 4;
    std::size_t lanes_least = 2;
    Duration chunk_soon = 10s;
    Duration chunk_late = 20s;
    std::size_t lanes_per_peer_max = 4;
    Duration request_wait_max = 30s;  // a lane without requests is closed
    Duration send_wait_max = 120s;    // a reader slower than a chunk in that time loses its lane
};

// True if this peer may ask for states.
using Gate = std::function<bool(const PeerId&)>;

// Serves `store` from construction to destruction. Host and store must outlive it, and handlers
// that still run then refuse quietly.
class StateServer {
  public:
    StateServer(p2p::Host& host, SnapshotStore& store, Gate gate, ServeLimits limits = {});
    ~StateServer();
    StateServer(const StateServer&) = delete;
    StateServer& operator=(const StateServer&) = delete;

    std::size_t lanes() const;         // open now
    std::uint64_t bytes_sent() const;  // chunks, since construction
    std::uint64_t refused() const;     // lanes beyond the limits

    struct State;

  private:
    p2p::Host& host_;
    std::shared_ptr<State> state_;
};

// One provider's part in a download.
struct ProviderReport {
    std::uint64_t chunks = 0;  // verified
    std::uint64_t bytes = 0;
    std::uint32_t failures = 0;  // timeouts, lost streams
    bool dropped = false;
    bool lied = false;    // sent a manifest or chunk that does not belong to the root
    std::string trouble;  // the last one, in words; empty: none
};

struct DownloadProgress {
    std::uint64_t bytes_have = 0;
    std::uint64_t bytes_total = 0;  // 0 until the manifest is there
    std::size_t providers_live = 0;
};

// Chunks of one state that have arrived. Lives longer than a download, so that a break costs
// nothing; with a disk also longer than the process. A completed download takes the chunks with
// it: another one begins anew.
class PartialState {
  public:
    explicit PartialState(Digest root) : root_(root) {}
    // Chunks are also written under `folder`; what lies there already is verified and used, and
    // removed when the state is complete.
    PartialState(Digest root, runtime::Disk& disk, std::string folder)
        : root_(root), disk_(&disk), folder_(std::move(folder)) {}
    PartialState(const PartialState&) = delete;
    PartialState& operator=(const PartialState&) = delete;

    const Digest& root() const { return root_; }
    std::size_t chunks_count() const { return have_.size(); }  // 0 until the manifest is there
    std::size_t chunks_have() const { return chunks_have_; }
    std::uint64_t bytes_have() const { return bytes_have_; }
    std::uint64_t bytes_total() const { return manifest_ ? manifest_->bytes : 0; }
    const std::map<PeerId, ProviderReport>& providers() const { return providers_; }
    bool has(std::size_t index) const { return index < have_.size() && have_[index]; }
    bool is_coming(std::size_t index) const { return coming_.contains(index); }  // from a provider
    Bytes chunk(std::size_t index) const;                                        // one that it has

  private:
    friend class Download;
    void begin(Manifest manifest);
    bool complete() const { return manifest_ && chunks_have_ == have_.size(); }
    Ok add(std::size_t index, Bytes chunk);  // verified by the caller
    std::string chunk_path(std::size_t index) const;

    Digest root_;
    runtime::Disk* disk_ = nullptr;
    std::string folder_;
    bool disk_was_read_ = false;
    std::optional<Manifest> manifest_;
    std::optional<SnapshotBuilder> builder_;  // from chunk 0 on
    std::map<std::size_t, Bytes> early_;      // chunks that came before chunk 0
    std::vector<bool> have_;
    std::set<std::size_t> coming_;
    std::size_t chunks_have_ = 0;
    std::uint64_t bytes_have_ = 0;
    std::map<PeerId, ProviderReport> providers_;
};

struct DownloadOptions {
    TimePoint deadline = TimePoint::never();
    Duration stall_max = 10min;  // without any chunk: timeout. Slow lines may take hours in all.
    std::size_t lanes_per_provider = 2;  // two hide the round trip
    std::size_t providers_at_once_max = 8;
    // Peers that may be downloading the same at the moment; providers among them are providers.
    std::function<std::vector<PeerId>()> co_downloaders{};
    std::size_t co_downloaders_at_once_max = 8;
    std::uint64_t bytes_max = state_bytes_max;  // larger states are refused before allocation
    Duration manifest_timeout = 10s;
    // For one chunk; doubled (up to 4 min), once a while of that length, while nothing at all
    // arrives, as then our own link is the slow one; at least four times what chunks usually take.
    Duration chunk_timeout = 60s;
    std::function<void(const DownloadProgress&)> progress;  // after every chunk
};

// All arguments by reference must outlive the Task (a Scope's owner holds them).
Task<Result<std::shared_ptr<const PublishedState>>> download(p2p::Host& host,
                                                             runtime::Workers& workers,
                                                             PartialState& partial,
                                                             std::vector<PeerId> providers,
                                                             DownloadOptions options);

}  // namespace dedloc::state
