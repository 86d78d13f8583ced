// dedloc why: where the time of a run's steps goes and what would make them shorter, from the
// folder of a peer (its events and certificates), or from outside, by a join string.

#include <chrono>
#include <filesystem>
#include <thread>

#include "dedloc/cli/commands.h"
#include "dedloc/cli/given_run_file.h"
#include "dedloc/cli/join_string_source.h"
#include "dedloc/cli/watcher.h"
#include "dedloc/monitor/run_history.h"
#include "dedloc/monitor/screen.h"
#include "dedloc/monitor/why_watch.h"
#include "dedloc/peer/early_failure.h"
#include "dedloc/peer/interrupts.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/say.h"
#include "dedloc/peer/trainer_program.h"
#include "dedloc/planning/plan_of_run.h"

namespace dedloc::cli {
namespace {

constexpr double why_reach_timeout_s = 20;
constexpr std::uint64_t why_steps_enough = 10;  // then an observer ends before its time

peer::Outcome<monitor::WhyFacts> facts_in_folder(const std::string& folder) {
    auto run = given_run_file(folder + "/" + std::string(peer::run_copy_file));
    if (!run) return peer::failure(run.error());
    monitor::WhyEvents seen(*std::move(run));
    const Ok read =
        monitor::read_events(folder, [&seen](const events::Event& event) { seen.add(event); });
    if (!read) return peer::failure(read.error());
    // The speeds of peers are in certificates; before the first there are none.
    const auto history = monitor::read_history(folder);
    return seen.facts(history ? history->steps : std::vector<monitor::CertifiedStep>());
}

peer::Outcome<monitor::WhyFacts> facts_of_run(const WhyOptions& options) {
    auto meant = join_argument_from(options.what);
    if (!meant) return peer::failure(meant.error());
    peer::become_trainer(meant->text);  // some tasks count their parameters only when made
    auto watcher = Watcher::start(meant->text, options.directory, why_reach_timeout_s);
    if (!watcher) return watcher.failure();
    peer::catch_interrupts();
    Watcher& run = **watcher;
    monitor::WhyWatch seen;
    const double until = run.wall_now() + options.seconds;
    while (peer::interrupts() == 0 && run.wall_now() < until && seen.steps() < why_steps_enough) {
        seen.observe(run.statuses(), run.wall_now());
        std::this_thread::sleep_for(monitor::frame_time);
    }
    const auto elements = planning::vector_elements(run.run());
    const double bytes =
        elements ? static_cast<double>(*elements) * monitor::element_bytes(run.run()) : 0;
    return seen.facts(run.run(), bytes);
}

bool is_folder(const std::string& path) {
    std::error_code error;
    return std::filesystem::is_directory(path, error);
}

}  // namespace

int run_why(const WhyOptions& options) {
    auto facts = is_folder(options.what) ? facts_in_folder(options.what) : facts_of_run(options);
    if (!facts) return peer::report_early(facts.failure(), options.json);
    const monitor::Why why = monitor::explain(*std::move(facts));
    peer::say(stdout, "{}", options.json ? monitor::to_json(why) + "\n" : monitor::to_text(why));
    return 0;
}

}  // namespace dedloc::cli
