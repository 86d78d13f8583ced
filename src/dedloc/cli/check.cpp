// dedloc check: says what a run file means, or where it is wrong, and whether the task can be
// trained on this machine.

#include <cstdio>
#include <nlohmann/json.hpp>

#include "dedloc/cli/commands.h"
#include "dedloc/cli/exit_codes.h"
#include "dedloc/cli/peer_directory.h"
#include "dedloc/collab/run_file.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::cli {
namespace {

std::string stop_text(const collab::StopConfig& stop) {
    std::string text;
    const auto add = [&](std::string part) { text += (text.empty() ? "" : " or ") + part; };
    if (stop.steps > 0) add(fmt::format("{} global steps", stop.steps));
    if (stop.samples > 0) add(fmt::format("{} samples", stop.samples));
    if (stop.accuracy > 0) add(fmt::format("{:.1f} % accuracy", stop.accuracy * 100));
    return text.empty() ? "never (until its peers leave)" : "after " + text;
}

}  // namespace

int run_check(const CheckOptions& options) {
    const auto text = read_text_file(options.run_file, collab::run_file_bytes_max);
    if (!text) return report(failure(text.error()));
    const auto run = collab::parse_run_file(*text, options.run_file);
    if (!run) return report(failure(run.error()));
    const std::string hash = collab::run_hash(*run).hex();
    const tasks::TaskOptions task_options{};
    const auto task = tasks::make_task(run->task, task_options);
    // A run that only another build can train is a valid one.
    const bool elsewhere = !task && task.error().kind() == ErrorKind::unsupported;
    if (!task && !elsewhere) return report(failure(task.error()));
    const std::string description = elsewhere ? task.error().message() : (*task)->description();
    if (options.json) {
        const nlohmann::ordered_json json{
            {"ok", true}, {"name", run->name}, {"run_hash", hash}, {"task", description}};
        fmt::print("{}\n", json.dump());
        return 0;
    }
    fmt::print(
        "{} is a valid run file.\n  run    {} ({})\n  task   {}\n  step   {} samples of all "
        "peers, {} at a time\n  ends   {}\n",
        options.run_file,
        run->name,
        hash.substr(0, 8),
        description,
        run->batch.target,
        run->batch.micro,
        stop_text(run->stop));
    return 0;
}

}  // namespace dedloc::cli
