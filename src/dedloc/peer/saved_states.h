// SavedStates: the checkpoints of a peer in training: when one is written, what is told of it, and
// what the user wants done with it.
//
// Thread: the main thread, which blocks while a state is written; sink() on the network thread.

#pragma once
#include <memory>
#include <string>

#include "dedloc/peer/checkpoint_hook.h"
#include "dedloc/peer/peer_options.h"
#include "dedloc/train/checkpoint_saver.h"
#include "dedloc/train/due_state.h"

namespace dedloc::peer {

class SavedStates {
  public:
    using Snapshot = std::shared_ptr<const state::Snapshot>;
    // `directory`: this peer's folder. What the hook tells goes to `hook_tells`; what is saved, or
    // cannot be, to `tell`.
    SavedStates(const collab::CollaborationService& service,
                const run::RunFile& run,
                const PeerOptions& options,
                std::string directory,
                CheckpointHook::Tell hook_tells,
                CheckpointHook::Tell tell);

    // The sink has seen every step since this peer began, to save those that are due.
    events::EventSink& sink() { return due_; }
    void begin_at(std::uint64_t step) { saver_.begin_at(step); }
    void begin() {
        due_.begin([this] { return service_.collaboration().state(); });
    }
    std::uint64_t step() const { return saver_.step(); }  // of the last try, or where it began

    // A state is saved where one is due, or asked for.
    void save_if_due();
    // The newest state is to be saved, and handed to the hook, with the next look. Errors:
    // bad_input: there is no hook.
    Ok ask_to_publish();
    // The last one; not twice.
    void save_last(const Snapshot& state);
    // The newest one's folder; empty: none was saved.
    const std::string& newest() const { return newest_; }
    // Why the last try failed; empty: it did not.
    const std::string& problem() const { return problem_; }
    CheckpointHook& hook() { return hook_; }

  private:
    void save(Snapshot snapshot);
    void publish();

    const collab::CollaborationService& service_;
    std::string folder_;
    state::KeepRule keep_;
    CheckpointHook::Tell tell_;
    train::CheckpointSaver saver_;
    train::DueState due_;
    CheckpointHook hook_;
    std::string newest_;
    std::string newest_root_;  // its hash
    bool is_to_publish_ = false;
    std::string problem_;
};

}  // namespace dedloc::peer
