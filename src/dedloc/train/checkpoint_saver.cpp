#include "dedloc/train/checkpoint_saver.h"

#include "dedloc/train/find_checkpoint.h"

namespace dedloc::train {

bool CheckpointSaver::is_due(const state::Snapshot& state) const {
    if (every_ == 0) return false;
    // Fewer steps than before: another branch was adopted, and the old one is nobody's any more.
    const bool turned_back = state.step() < step_;
    return turned_back || state.step() / every_ > step_ / every_;
}

Result<state::CheckpointSummary> CheckpointSaver::save(std::shared_ptr<const state::Snapshot> state,
                                                       const state::KeepRule& keep) {
    step_ = state->step();
    const std::weak_ptr<const state::Snapshot> saving = state;
    auto published = std::make_shared<state::PublishedState>();
    published->manifest = state::make_manifest(*state);
    published->snapshot = std::move(state);
    const collab::Collaboration& collaboration = service_->collaboration();
    const state::Checkpoint checkpoint{.state = std::move(published),
                                       .run_file = run_file_,
                                       .extra = service_->node().run_on_network_thread(
                                           [&collaboration] { return collaboration.chain(); })};
    DEDLOC_TRY(state::CheckpointSummary summary,
               state::save_checkpoint(
                   service_->node().disk(), std::string(checkpoints_folder), checkpoint, keep));
    saved_ = saving;
    return summary;
}

}  // namespace dedloc::train
