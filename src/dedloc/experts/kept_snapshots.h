// KeptSnapshots: snapshots of experts that others serve, on this machine's disk, one an expert.
//
// A file is the canonical bytes of the snapshot; it is checked against its root when it is read.
// Memory holds only what is being written or read. Bounded: experts_max experts; a newer snapshot
// of an expert replaces the older. Files outlive the process: load() finds them, and those of
// experts that this machine served without a keeper.
//
// Errors: overloaded (full), local_fault, bad_input (the file is not what it was). Thread: network.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/time.h"
#include "dedloc/runtime/disk.h"
#include "dedloc/runtime/workers.h"
#include "dedloc/state/manifest.h"

namespace dedloc::experts {

struct Kept {
    PeerId server;  // who serves the expert, as far as we know; empty: found on disk by load()
    Digest root;
    std::uint64_t updates = 0;       // of the snapshot
    std::uint64_t last_updates = 0;  // that we heard of, to count what a death has cost
    int silent = 0;                  // questions in a row that its server did not answer
};

class KeptSnapshots {
  public:
    KeptSnapshots(runtime::Disk& disk, std::size_t experts_max)
        : disk_(disk), experts_max_(experts_max) {}

    bool has_room(const std::string& uid) const {
        return kept_.contains(uid) || kept_.size() < experts_max_;
    }
    Task<Result<void>> put(runtime::Workers& workers,
                           std::string uid,
                           PeerId server,
                           std::uint64_t updates,
                           std::shared_ptr<const state::PublishedState> state);
    Task<Result<std::shared_ptr<const state::PublishedState>>> read(runtime::Workers& workers,
                                                                    std::string uid);
    // Finds what an earlier process left here of the experts that `is_wanted` knows.
    Task<void> load(runtime::Workers& workers, std::function<bool(const std::string&)> is_wanted);
    // A snapshot of our own for the next process: nobody else has one.
    Task<Result<void>> write(runtime::Workers& workers,
                             std::string uid,
                             std::shared_ptr<const state::PublishedState> state);
    // Serves it here from now on; the file stays.
    void release(const std::string& uid) { kept_.erase(uid); }

    Kept* find(const std::string& uid);
    std::map<std::string, Kept>& all() { return kept_; }
    const std::map<std::string, Kept>& all() const { return kept_; }

  private:
    runtime::Disk& disk_;
    std::size_t experts_max_;
    std::map<std::string, Kept> kept_;
};

}  // namespace dedloc::experts
