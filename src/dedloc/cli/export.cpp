// dedloc export: a checkpoint's model as files that other programs read.

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "dedloc/cli/checkpoint_source.h"
#include "dedloc/cli/commands.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/fits_memory.h"
#include "dedloc/peer/memory.h"
#include "dedloc/peer/run_files.h"
#include "dedloc/peer/say.h"
#include "dedloc/peer/task_progress.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/security/identity.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::cli {

namespace {

Result<std::vector<std::string>> export_to(const run::RunFile& run,
                                           const FoundCheckpoint& found,
                                           const ExportOptions& options) {
    const state::Snapshot& snapshot = *found.checkpoint.state->snapshot;
    const tasks::TaskOptions task_options{.device = "cpu",
                                          .threads_count = 1,
                                          .data_directory = options.data_directory,
                                          .unprepared = true,
                                          .progress = peer::task_progress()};
    DEDLOC_TRY_VOID(peer::restore_run_files(found.path, run.task, task_options));
    DEDLOC_TRY(const auto task, tasks::make_task(run.task, task_options));
    const PeerId anybody = security::Identity::generate().id();
    DEDLOC_TRY_VOID(peer::check_fits(*task, peer::MemoryUse::evaluation, peer::memory_available()));
    DEDLOC_TRY(const auto learner, task->learner(anybody));
    DEDLOC_TRY_VOID(replica::check_state(run, learner->layout(), snapshot));
    return task->export_model(
        replica::parameters_of(snapshot), replica::buffers_of(snapshot), options.directory);
}

}  // namespace

int run_export(const ExportOptions& options) {
    const auto found = find_checkpoint(options.checkpoint);
    if (!found) return peer::report(peer::failure(found.error()));
    for (const std::string& skipped : found->skipped) peer::say(stderr, "dedloc: {}\n", skipped);
    const auto run = run::parse_run_file(found->checkpoint.run_file, found->path + "/run.toml");
    if (!run) return peer::report(peer::failure(run.error()));
    std::error_code error;
    std::filesystem::create_directories(options.directory, error);
    if (error)
        return peer::report(
            {peer::ExitCode::disk,
             fmt::format("cannot make the folder {}: {}", options.directory, error.message())});
    const state::PublishedState& state = *found->checkpoint.state;
    const auto names = export_to(*run, *found, options);
    if (!names) return peer::report(peer::failure(names.error()));
    if (options.json) {
        const nlohmann::ordered_json json{{"ok", true},
                                          {"run", run->name},
                                          {"checkpoint", found->path},
                                          {"step", state.snapshot->step()},
                                          {"state_hash", state.root().hex()},
                                          {"directory", options.directory},
                                          {"files", *names}};
        peer::say(stdout, "{}\n", monitor::json_line(json));
        return 0;
    }
    peer::say(stdout,
              "{}, step {}, state {}: in {}\n",
              run->name,
              state.snapshot->step(),
              state.root().short_hex(),
              options.directory);
    for (const std::string& name : *names) peer::say(stdout, "  {}\n", name);
    return 0;
}

}  // namespace dedloc::cli
