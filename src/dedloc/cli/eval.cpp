// dedloc eval: loss and accuracy of a checkpoint on the task's held-out data, and what else the
// task measures (masked words: perplexity). A model with experts calls those that the run's servers
// have now (--run), which may have learnt since the checkpoint.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "dedloc/base/file.h"
#include "dedloc/base/text_lines.h"
#include "dedloc/cli/checkpoint_source.h"
#include "dedloc/cli/commands.h"
#include "dedloc/cli/watcher.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/data_through_run.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/fits_memory.h"
#include "dedloc/peer/memory.h"
#include "dedloc/peer/node_opening.h"
#include "dedloc/peer/run_files.h"
#include "dedloc/peer/say.h"
#include "dedloc/peer/task_progress.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/security/identity.h"
#include "dedloc/tasks/eval_texts.h"
#include "dedloc/tasks/experts_section.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::cli {

namespace {

// Servers that are there answer sooner; nobody waits here for those that may come.
constexpr Duration experts_timeout = 8s;
constexpr Duration reach_run_timeout = 8s;
constexpr auto grid_look_time = std::chrono::milliseconds(100);

struct Evaluated {
    collab::Evaluation evaluation;
    std::vector<tasks::Measure> measures;
};

// A peer whose run sends its data has on disk what it fetched of them, held-out text among it.
Result<std::shared_ptr<const tasks::TrainingTask>> task_for(const run::RunFile& run,
                                                            const FoundCheckpoint& found,
                                                            tasks::TaskOptions options) {
    auto task = tasks::make_task(run.task, options);
    if (task || task.error().kind() != ErrorKind::not_found) return task;
    const auto folder = std::filesystem::path(found.path).parent_path().parent_path().string();
    options.shared = peer::text_fetched_by(folder, run.task);
    return options.shared ? tasks::make_task(run.task, options) : std::move(task);
}

Result<Evaluated> evaluate(const run::RunFile& run,
                           const FoundCheckpoint& found,
                           const EvalOptions& options,
                           const collab::Node* node) {
    const state::Snapshot& snapshot = *found.checkpoint.state->snapshot;
    const tasks::TaskOptions task_options{.device = options.device,
                                          .threads_count = options.threads,
                                          .data_directory = options.data_directory,
                                          .progress = peer::task_progress(options.json),
                                          .node = node,
                                          .experts_timeout = experts_timeout};
    DEDLOC_TRY_VOID(peer::restore_run_files(found.path, run.task, task_options));
    DEDLOC_TRY(const auto task, task_for(run, found, task_options));
    // The learner's peer decides only the order of training samples.
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

// The run whose experts a model calls, or the reason why it cannot.
peer::Outcome<std::unique_ptr<Watcher>> reach_run(const run::RunFile& run,
                                                  const std::string& path,
                                                  const std::string& join_string,
                                                  const std::string& directory) {
    auto started = Watcher::start(join_string, directory, to_seconds(reach_run_timeout));
    const bool has_experts = run.task.section(tasks::experts_section_name) != nullptr;
    if (!started && has_experts && started.failure().code == peer::ExitCode::unreachable) {
        peer::Failure failed = started.failure();
        failed.message +=
            "\nThe experts of this model are where `dedloc serve` runs, and with nobody of the "
            "run in reach nobody serves them: if it has ended, host it again (`dedloc host "
            "--resume FOLDER`), serve in the folders of those who did, and evaluate then";
        return failed;
    }
    if (!started) return started.failure();
    std::unique_ptr<Watcher> watcher = std::move(*started);
    if (run::run_hash(watcher->run()) != run::run_hash(run))
        return peer::Failure{
            peer::ExitCode::bad_input,
            fmt::format("{} is of the run {}, and the join string leads to another one, {}",
                        path,
                        run.name,
                        watcher->run().name)};
    if (!has_experts) return watcher;
    const TimePoint until = watcher->node().clock().now() + experts_timeout;
    std::optional<experts::GridSeen> seen;
    while ((!seen || seen->served() == 0) && watcher->node().clock().now() < until) {
        std::this_thread::sleep_for(grid_look_time);
        seen = watcher->grid();
    }
    if (!seen || seen->served() == 0)
        return peer::Failure{
            peer::ExitCode::unreachable,
            fmt::format("nobody serves the experts of {} now, so the model cannot be "
                        "evaluated: run `dedloc serve` in the folders of those who did",
                        run.name)};
    if (seen->served() < seen->experts.size())
        peer::say(stderr,
                  "dedloc: {} of {} experts are served; rows are mixed from these\n",
                  seen->served(),
                  seen->experts.size());
    return watcher;
}

Result<std::string> text_of_user(const std::string& path) {
    DEDLOC_TRY(const std::string file, base::read_file(path, tasks::scored_file_bytes_max));
    auto text = base::text_of_file(file);
    if (!text) return std::move(text).error().with_context(path);
    return std::string(*text);
}

// Measures on the user's own files; the task's data are not needed.
Result<std::vector<tasks::Measure>> score_files(const run::RunFile& run,
                                                const FoundCheckpoint& found,
                                                const EvalOptions& options) {
    const tasks::TaskOptions task_options{
        .device = options.device, .threads_count = options.threads, .unprepared = true};
    std::string text;
    std::vector<tasks::Question> questions;
    if (!options.perplexity_file.empty()) {
        DEDLOC_TRY(text, text_of_user(options.perplexity_file));
    }
    if (!options.choices_file.empty()) {
        DEDLOC_TRY(const std::string file, text_of_user(options.choices_file));
        auto read = tasks::questions_in(file);
        if (!read) return std::move(read).error().with_context(options.choices_file);
        questions = *std::move(read);
    }
    DEDLOC_TRY_VOID(peer::restore_run_files(found.path, run.task, task_options));
    DEDLOC_TRY(const auto task, tasks::make_task(run.task, task_options));
    const state::Snapshot& snapshot = *found.checkpoint.state->snapshot;
    const auto score = [&](std::span<const tasks::ScoredText> texts) {
        return task->score(replica::parameters_of(snapshot), replica::buffers_of(snapshot), texts);
    };
    std::vector<tasks::Measure> measures;
    if (!options.perplexity_file.empty()) {
        const tasks::ScoredText whole{.text = std::move(text)};
        DEDLOC_TRY(const auto scores, score({&whole, 1}));
        measures = tasks::perplexity_measures(scores.front());
    }
    if (!questions.empty()) {
        DEDLOC_TRY(const auto scores, score(tasks::texts_of(questions)));
        for (tasks::Measure& one : tasks::choice_measures(questions, scores))
            measures.push_back(std::move(one));
    }
    return measures;
}

int print_judged(const run::RunFile& run,
                 const FoundCheckpoint& found,
                 const EvalOptions& options) {
    const auto measures = score_files(run, found, options);
    if (!measures) return peer::report(peer::failure(measures.error()));
    const std::uint64_t step = found.checkpoint.state->snapshot->step();
    if (options.json) {
        nlohmann::ordered_json json{
            {"ok", true}, {"run", run.name}, {"checkpoint", found.path}, {"step", step}};
        for (const tasks::Measure& measure : *measures) json[measure.name] = measure.value;
        peer::say(stdout, "{}\n", monitor::json_line(json));
        return 0;
    }
    peer::say(stdout, "{}, step {}\n", run.name, step);
    for (const tasks::Measure& measure : *measures)
        peer::say(stdout, "  {:<26} {:.6g}\n", measure.name, measure.value);
    return 0;
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
    if (!options.perplexity_file.empty() || !options.choices_file.empty())
        return print_judged(*run, *found, options);
    const state::PublishedState& state = *found->checkpoint.state;
    std::unique_ptr<Watcher> watcher;
    if (!options.join_string.empty()) {
        auto reached = reach_run(*run, found->path, options.join_string, options.directory);
        if (!reached) return peer::report(reached.failure());
        watcher = std::move(*reached);
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
