// ExpertHost: a machine lent to a grid of experts. It takes over what nobody serves, declares it,
// lets keepers copy it, keeps copies of others' experts, and serves one whose server is gone.
//
// * Every declare_period it declares its experts for `declared_for`. First it looks who is named:
//   an expert that somebody else serves meanwhile (we were stopped, or cut off) is given up.
// * Every snapshot_period each changed expert goes to `keepers` servers, chosen by rendezvous hash,
//   by the state transfer; one expert at a time, so that memory holds one copy.
// * A keeper asks the servers of what it keeps every watch_period. One that is silent for
//   `silent_max` questions has lost its experts: the first of the keepers that has room loads the
//   snapshot, serves it and declares it; the others come later, and look first. What the expert had
//   learnt since is lost, counted and told.
// * Every takeover_period it looks for experts that nobody serves. All servers compute the same
//   assignment (placement.h); what falls to us is loaded from a keeper or from our own disk, else
//   begins anew. A server that comes later with a copy of such an expert is asked for it.
// * leave(): keepers take over at once; nothing is lost. What no keeper takes stays on our disk for
//   the next process, as does what has fewer copies than it should.
//
// Memory holds one copy on its way in, and one on its way out; who comes meanwhile waits his turn.
// Where there is no room for another expert, others are told that this server takes no more.
//
// Experts stand outside the promises of identical replicas and atomic steps (docs/experts.md).
// Errors are counted; nothing here fails. Lifetime: all that is passed outlives it; stop() first.
// Thread: the network thread; snapshots are made in the device thread.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "dedloc/experts/directory.h"
#include "dedloc/experts/host_messages.h"
#include "dedloc/experts/kept_snapshots.h"
#include "dedloc/experts/placement.h"
#include "dedloc/experts/server.h"
#include "dedloc/experts/turns.h"
#include "dedloc/runtime/node.h"
#include "dedloc/state/transfer.h"

namespace dedloc::experts {

struct HostOptions {
    ExpertGrid grid;
    std::size_t experts_max = 64;  // that it serves
    std::size_t kept_max = 256;    // that it keeps
    std::size_t keepers = 2;
    Duration declare_period = std::chrono::seconds(4);
    Duration declared_for = std::chrono::seconds(14);
    Duration snapshot_period = std::chrono::seconds(10);
    Duration watch_period = std::chrono::seconds(2);
    int silent_max = 3;
    Duration takeover_period = std::chrono::seconds(4);
    // Time for all to have been declared and heard of, before anything counts as missing.
    Duration settle = std::chrono::seconds(6);
    ServerLimits server;
    // Asked before an expert or a copy of one is taken; where it refuses, there is no memory for
    // it now. Null: always.
    std::function<Ok()> has_room{};
    std::uint64_t snapshot_bytes_max = std::uint64_t{1} << 30;  // of one expert
};

struct HostCounts {
    std::uint64_t begun = 0;        // experts that began anew here
    std::uint64_t taken_over = 0;   // from a snapshot
    std::uint64_t given_up = 0;     // somebody else served them
    std::uint64_t handed_over = 0;  // when we left
    std::uint64_t snapshots_sent = 0;
    std::uint64_t snapshots_kept = 0;
    std::uint64_t updates_lost = 0;  // as far as anybody knew
    std::uint64_t no_memory = 0;     // experts and copies that were not taken
};

// A server saw this when it looked for work.
struct GridSurvey {
    bool looked = false;
    std::size_t elsewhere = 0;  // experts that others serve
    std::size_t missing = 0;    // that nobody serves
    std::size_t unknown = 0;    // the table did not say
};

// Told of what a user wants to see: "taken over ffn.3.1 of 12D3… (4 updates lost)".
using HostListener = std::function<void(std::string_view what, const std::string& uid)>;

class ExpertHost {
  public:
    ExpertHost(runtime::Node node,
               p2p::Host& host,
               dht::DhtNode& table,
               const security::Signer& signer,
               runtime::Workers& device,
               ExpertFactory factory,
               HostOptions options,
               HostListener listener = {});
    ~ExpertHost();
    ExpertHost(const ExpertHost&) = delete;
    ExpertHost& operator=(const ExpertHost&) = delete;

    void start();
    // Hands experts to keepers, by the deadline; then stop().
    Task<void> leave(TimePoint deadline);
    Task<void> stop();

    const ExpertServer& server() const { return server_; }
    Directory& directory() { return directory_; }
    const HostCounts& counts() const { return counts_; }
    const GridSurvey& grid() const { return grid_; }
    std::size_t hosted() const { return hosted_.size(); }
    std::size_t kept() const { return kept_.all().size(); }

  private:
    struct Hosted {
        ExpertUid uid;
        std::uint64_t saved_updates = 0;  // of the snapshot that keepers have
        bool saved = false;
        bool declared = false;
        std::optional<std::uint64_t> own_updates{};  // of the snapshot on our own disk
        // The servers that were asked for a copy, as nobody served it; others may come later.
        std::optional<std::set<PeerId>> asked{};
    };
    using Published = std::shared_ptr<const state::PublishedState>;

    // --- declarations (expert_host.cpp)
    Task<void> open_for_work();
    Task<void> declare_all_the_time();
    Task<void> declare();
    Task<void> find_work();
    Task<void> take_over_missing();
    Task<std::vector<ServerRoom>> servers();
    Task<void> begin(ExpertUid uid);
    Task<void> adopt_late_offers();
    Result<void> serve(const ExpertUid& uid, const state::Snapshot* snapshot);

    // --- copies (expert_host_copies.cpp)
    Task<void> send_snapshots();
    Task<bool> send_snapshot(std::string uid, bool take_over, TimePoint deadline);
    Task<Published> take_snapshot(std::string uid);
    Task<void> save_here(std::string uid, Published published);
    Task<Result<Bytes>> on_keep(PeerId from, Bytes request);
    Task<Result<Bytes>> on_alive(PeerId from, Bytes request);
    Task<Result<Bytes>> on_offer(PeerId from, Bytes request);
    Task<Result<Published>> fetch(PeerId from, Digest root);
    Task<Published> best_offer(std::string uid);
    Task<Published> offer_of(PeerId server, std::string uid, std::uint64_t more_than);
    Task<void> watch();
    Task<void> watch_server(PeerId server, std::vector<std::string> uids);
    Task<void> rescue(std::string uid);

    // Fewer than options_ says while memory is short.
    std::size_t experts_max() const;
    bool may_serve_another();
    bool has_memory();
    void tell(std::string_view what, const std::string& uid) const;
    TimePoint within(Duration duration) const { return node_.clock.now() + duration; }
    WallSeconds declared_until() const {
        return table_.wall_now() + to_seconds(options_.declared_for);
    }

    runtime::Node node_;
    p2p::Host& host_;
    dht::DhtNode& table_;
    const security::Signer& signer_;
    ExpertFactory factory_;
    HostOptions options_;
    HostListener listener_;
    ExpertServer server_;
    Directory directory_;
    state::SnapshotStore store_;  // the few snapshots that are being fetched
    state::StateServer state_server_;
    KeptSnapshots kept_;
    std::map<std::string, Hosted> hosted_;
    std::vector<ServerRoom> known_servers_;
    std::uint64_t calls_before_ = 0;
    HostCounts counts_;
    GridSurvey grid_;
    Turns in_;      // an expert or a copy that is taken
    Turns out_;     // a snapshot that is given
    Turns offers_;  // a copy that is read for who asked for it
    TimePoint started_;
    bool running_ = false;
    bool leaving_ = false;
    runtime::Scope scope_;
};

}  // namespace dedloc::experts
