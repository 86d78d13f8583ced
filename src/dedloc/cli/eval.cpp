// dedloc eval: loss and accuracy of a checkpoint on the task's held-out data, and what else the
// task measures (masked words: perplexity). A model with experts calls those that the run's servers
// have now (--run), which may have learnt since the checkpoint.

#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "dedloc/cli/checkpoint_source.h"
#include "dedloc/cli/commands.h"
#include "dedloc/cli/watcher.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/fits_memory.h"
#include "dedloc/peer/memory.h"
#include "dedloc/peer/node_opening.h"
#include "dedloc/peer/run_files.h"
#include "dedloc/peer/say.h"
#include "dedloc/peer/task_progress.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/security/identity.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::cli {

namespace {

struct Evaluated {
    collab::Evaluation evaluation;
    std::vector<tasks::Measure> measures;
};

Result<Evaluated> evaluate(const run::RunFile& run,
                           const FoundCheckpoint& found,
                           const EvalOptions& options,
                           const collab::Node* node) {
    const state::Snapshot& snapshot = *found.checkpoint.state->snapshot;
    const tasks::TaskOptions task_options{.device = options.device,
                                          .threads_count = options.threads,
                                          .data_directory = options.data_directory,
                                          .progress = peer::task_progress(options.json),
                                          .node = node};
    DEDLOC_TRY_VOID(peer::restore_run_files(found.path, run.task, task_options));
    DEDLOC_TRY(const auto task, tasks::make_task(run.task, task_options));
    // Whose learner it is decides only the order of training samples.
    const PeerId anybody = security::Identity::generate().id();
    DEDLOC_TRY_VOID(peer::check_fits(*task, peer::MemoryUse::evaluation, peer::memory_available()));
    DEDLOC_TRY(const auto learner, task->learner(anybody));
    DEDLOC_TRY_VOID(replica::check_state(run, learner->layout(), snapshot));
    learner->load(replica::parameters_of(snapshot), replica::buffers_of(snapshot));
    Evaluated result;
    DEDLOC_TRY(result.evaluation, learner->evaluate());
    DEDLOC_TRY(result.measures,
               task->measure(replica::parameters_of(snapshot), replica::buffers_of(snapshot), 0));
    return result;
}

// Not every task has one.
std::string accuracy_text(const collab::Evaluation& evaluation) {
    if (std::isnan(evaluation.accuracy)) return {};
    return fmt::format(", accuracy {:.2f} %", evaluation.accuracy * 100);
}

}  // namespace

int run_eval(const EvalOptions& options) {
    const auto found = find_checkpoint(options.checkpoint);
    if (!found) return peer::report(peer::failure(found.error()));
    for (const std::string& skipped : found->skipped) peer::say(stderr, "dedloc: {}\n", skipped);
    const auto run = run::parse_run_file(found->checkpoint.run_file, found->path + "/run.toml");
    if (!run) return peer::report(peer::failure(run.error()));
    const state::PublishedState& state = *found->checkpoint.state;
    std::unique_ptr<Watcher> watcher;
    if (!options.join_string.empty()) {
        auto started = Watcher::start(options.join_string, "", to_seconds(peer::reach_patience));
        if (!started) return peer::report(started.failure());
        watcher = std::move(*started);
        if (run::run_hash(watcher->run()) != run::run_hash(*run))
            return peer::report(
                peer::Failure{peer::ExitCode::bad_input,
                              fmt::format("{} is of the run {}, and the join string leads to "
                                          "another one, {}",
                                          found->path,
                                          run->name,
                                          watcher->run().name)});
    }
    const auto measured = evaluate(*run, *found, options, watcher ? &watcher->node() : nullptr);
    if (!measured) return peer::report(peer::failure(measured.error()));
    if (options.json) {
        nlohmann::ordered_json json{{"ok", true},
                                    {"run", run->name},
                                    {"checkpoint", found->path},
                                    {"step", state.snapshot->step()},
                                    {"state_hash", state.root().hex()},
                                    {"loss", measured->evaluation.loss},
                                    {"accuracy", measured->evaluation.accuracy},
                                    {"samples", measured->evaluation.samples}};
        for (const tasks::Measure& measure : measured->measures)
            if (!json.contains(measure.name)) json[measure.name] = measure.value;
        peer::say(stdout, "{}\n", monitor::json_line(json));
        return 0;
    }
    peer::say(stdout,
              "{}, step {}, state {}: loss {:.4f}{} on {} samples\n",
              run->name,
              state.snapshot->step(),
              state.root().short_hex(),
              measured->evaluation.loss,
              accuracy_text(measured->evaluation),
              measured->evaluation.samples);
    for (const tasks::Measure& measure : measured->measures)
        peer::say(stdout, "  {:<18} {:.6g}\n", measure.name, measure.value);
    return 0;
}

}  // namespace dedloc::cli
