// CheckpointSaver: when a peer saves its state, and what goes into the checkpoint
// (state/checkpoint.h), in the folder checkpoints/ of its own.
//
// Thread: one, not the network thread. Blocks for a write of the state. Errors: as save_checkpoint.

#pragma once
#include <memory>
#include <string>

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/state/checkpoint.h"

namespace dedloc::train {

class CheckpointSaver {
  public:
    // `service` has begun with `run` when anything is saved, and outlives this.
    CheckpointSaver(const collab::CollaborationService& service, const run::RunFile& run)
        : service_(&service), run_file_(run::to_toml(run)), every_(run.checkpoint_every) {}

    void begin_at(std::uint64_t step) { step_ = step; }
    std::uint64_t step() const { return step_; }  // of the last try, or where it began
    bool saves() const { return every_ > 0; }     // the run file's checkpoint.every
    // Every so many steps.
    bool is_due(const state::Snapshot& state) const;
    bool has_saved(const std::shared_ptr<const state::Snapshot>& state) const {
        return saved_.lock() == state;
    }
    Result<state::CheckpointSummary> save(std::shared_ptr<const state::Snapshot> state,
                                          const state::KeepRule& keep = {});

  private:
    const collab::CollaborationService* service_;
    std::string run_file_;
    std::uint64_t every_;
    std::uint64_t step_ = 0;
    std::weak_ptr<const state::Snapshot> saved_;
};

}  // namespace dedloc::train
