#include "dedloc/peer/saved_states.h"

#include <utility>

#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/prompts.h"
#include "dedloc/tasks/registry.h"

namespace dedloc::peer {

namespace {

HookOptions hook_options(const PeerOptions& options,
                         const run::RunFile& run,
                         const std::string& directory) {
    HookOptions hook{.command = options.on_checkpoint,
                     .publish_directory = options.publish_directory,
                     .log_directory = directory};
    if (!options.watch_prompts.empty())
        hook.command = sheet_command(
            options.watch_prompts, directory, tasks::writes_text(run.task), options.on_checkpoint);
    return hook;
}

}  // namespace

SavedStates::SavedStates(const collab::CollaborationService& service,
                         const run::RunFile& run,
                         const PeerOptions& options,
                         std::string directory,
                         CheckpointHook::Tell hook_tells,
                         CheckpointHook::Tell tell)
    : service_(service),
      folder_(directory + "/" + std::string(checkpoints_folder)),
      keep_{.newest = static_cast<std::size_t>(options.checkpoints_kept),
            .every_steps = options.checkpoint_kept_every},
      tell_(std::move(tell)),
      saver_(service, run),
      due_(run.checkpoint_every),
      hook_(hook_options(options, run, directory), std::move(hook_tells)) {}

void SavedStates::save(Snapshot snapshot) {
    keep_.also = hook_.holds();
    const auto saved = saver_.save(std::move(snapshot), keep_);
    if (!saved) {
        problem_ = saved.error().message();
        tell_(events::CheckpointFailed{}, problem_);
        return;
    }
    problem_.clear();
    newest_ = folder_ + "/" + saved->name;
    newest_root_ = saved->root.hex();
    hook_.saved(newest_, saved->step, newest_root_);
    tell_(events::CheckpointSaved{}, fmt::format("saved the state of step {}", saved->step));
}

Ok SavedStates::ask_to_publish() {
    if (!hook_.wanted())
        return make_error(ErrorKind::bad_input,
                          "this peer has nowhere to publish: start it with --publish FOLDER, or "
                          "with --on-checkpoint COMMAND");
    is_to_publish_ = true;
    return {};
}

// A state that is saved already is published once more: its copy may be gone, or its hook have
// failed.
void SavedStates::publish() {
    const Snapshot snapshot = service_.collaboration().state();
    if (saver_.has_saved(snapshot) && problem_.empty())
        hook_.saved(newest_, snapshot->step(), newest_root_);
    else
        save(snapshot);
}

void SavedStates::save_if_due() {
    if (std::exchange(is_to_publish_, false)) publish();
    Snapshot snapshot = due_.take();
    if (!snapshot || snapshot->step() <= saver_.step()) snapshot = service_.collaboration().state();
    if (saver_.is_due(*snapshot)) save(std::move(snapshot));
}

void SavedStates::save_last(const Snapshot& state) {
    if (!saver_.has_saved(state)) save(state);
}

}  // namespace dedloc::peer
