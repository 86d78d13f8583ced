// dedloc check: says what a run file means, or where it is wrong, and whether the task can be
// trained on this machine: with how much memory, how fast, from which samples.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "dedloc/cli/commands.h"
#include "dedloc/cli/given_run_file.h"
#include "dedloc/cli/robust_words.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/fits_memory.h"
#include "dedloc/peer/memory.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/say.h"
#include "dedloc/peer/task_progress.h"
#include "dedloc/planner/split.h"
#include "dedloc/planning/plan_classes.h"
#include "dedloc/replica/kept_averages.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/run/run_file.h"
#include "dedloc/run/run_hints.h"
#include "dedloc/run/vector_codecs.h"
#include "dedloc/security/identity.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/tasks/training_task.h"
#include "dedloc/train/micro_batch.h"
#include "dedloc/train/recomputable.h"

namespace dedloc::cli {
namespace {

std::string stop_text(const run::StopConfig& stop) {
    std::string text;
    const auto add = [&](std::string part) { text += (text.empty() ? "" : " or ") + part; };
    if (stop.steps > 0) add(fmt::format("{} global steps", stop.steps));
    if (stop.samples > 0) add(fmt::format("{} samples", stop.samples));
    if (stop.accuracy > 0) add(fmt::format("{:.1f} % accuracy", stop.accuracy * 100));
    return text.empty() ? "never (until its peers leave)" : "after " + text;
}

std::string inner_text(const run::LocalConfig& local) {
    const bool momentum =
        local.optimizer.kind == optim::OptimizerKind::sgd && local.optimizer.momentum > 0;
    return fmt::format("{}{}, rate {:.3g}",
                       optim::to_string(local.optimizer.kind),
                       momentum ? " with momentum" : "",
                       local.optimizer.schedule.peak);
}

// Steps of each of so many equal peers between two averages.
double inner_steps(const run::RunFile& run, int peers) {
    return static_cast<double>(run.batch.target) /
           (static_cast<double>(run.local->batch) * static_cast<double>(peers));
}

void print_local(const run::RunFile& run, const CheckOptions& options) {
    peer::say(
        stdout,
        "  inner  each peer makes a step of its own after {} of its samples ({}): {:.3g} each of "
        "{} equal peers\n"
        "  outer  then the mean pseudo-gradient is the gradient of a step of all ({}, "
        "rate {:.3g})\n",
        run.local->batch,
        inner_text(*run.local),
        inner_steps(run, options.peers),
        options.peers,
        optim::to_string(run.optimizer.kind),
        run.optimizer.schedule.peak);
    if (run.fragments() > 1)
        peer::say(stdout,
                  "  parts  a round moves one of {} fragments of the model: each in turn, every "
                  "{:.3g} inner steps\n",
                  run.fragments(),
                  inner_steps(run, options.peers) * static_cast<double>(run.fragments()));
}

// A forecast says what can be said about a task without training it.
struct Forecast {
    std::uint64_t parameters = 0;
    std::string codecs;            // which elements travel in which
    std::uint64_t elements = 0;    // of the vector that is averaged
    double element_bytes = 0;      // as encoded, on average
    double round_bytes = 0;        // that one of equal peers sends, and receives
    double round_seconds = 0;      // on the links that were asked for
    std::uint64_t kept_bytes = 0;  // averages of the last steps, for others
    tasks::MemoryEstimate memory;
    std::vector<tasks::Measure> first;  // of the starting model, on some held-out samples
    double samples_per_second = 0;      // of this machine; 0: not measured
    std::uint64_t memory_in_use = 0;    // after that; 0: not known
    std::uint64_t micro = 0;            // the run file's, or what this machine finds
    std::string micro_text;             // how it was found
    std::vector<std::string> texts;
    std::vector<tasks::Measure> facts;
    std::optional<tasks::RunExperts> experts;  // at the machines of who serves
};

constexpr std::uint64_t first_samples = 8;
constexpr double slow_sample_s = 5;  // one that takes longer tells enough
// A gradient costs this many times what the loss alone does.
constexpr double forward_and_back = 3;

bool has(const std::vector<tasks::Measure>& measures, std::string_view name) {
    return std::ranges::any_of(measures,
                               [name](const auto& measure) { return measure.name == name; });
}

// A language model's loss is that of its tokens, ALBERT's that of words and of their order.
double first_loss(const std::vector<tasks::Measure>& first) {
    for (const char* name : {"loss", "token_loss"})
        if (has(first, name)) return tasks::value_of(first, name);
    return tasks::value_of(first, "masked_loss") + tasks::value_of(first, "order_loss");
}

Ok forecast_round(const run::RunFile& run,
                  const run::Layout& layout,
                  const CheckOptions& options,
                  Forecast& forecast) {
    const std::uint64_t elements = layout.vector_count() / run.fragments();  // of a round
    forecast.elements = layout.vector_count();
    forecast.element_bytes = codec::element_bytes(run::vector_codecs(run.averaging, layout));
    forecast.codecs = run::describe_codecs(run.averaging, layout);
    const double bytes = forecast.element_bytes * static_cast<double>(elements);
    constexpr double bits = 8;
    constexpr double mega = 1e6;
    const double rate =
        options.mbit * mega / bits * static_cast<double>(elements) / bytes;  // elements a second
    const auto count = static_cast<std::size_t>(options.peers);
    const planner::PeerRates link{.upload_per_s = rate, .download_per_s = rate};
    const std::vector<planner::PeerRates> peers(count, link);
    DEDLOC_TRY(const planner::Split split, planner::split_elements(peers, elements));
    const double others = static_cast<double>(count - 1) / static_cast<double>(count);
    forecast.round_bytes = 2 * others * bytes;
    forecast.round_seconds = split.seconds;
    return {};
}

constexpr double long_s = 1;  // a user should see that something happens

// Finds what a trainer here would find at its start, on samples of nobody.
Ok find_micro_batch(const run::RunFile& run,
                    const tasks::TrainingTask& task,
                    const CheckOptions& options,
                    train::SampledModel& learner,
                    Forecast& forecast) {
    forecast.micro = run.batch.micro;
    if (run.batch.micro != run::micro_auto) return {};
    const auto now = [] { return TimePoint{std::chrono::steady_clock::now().time_since_epoch()}; };
    const auto told = [&](std::uint64_t samples, double seconds) {
        if (!options.json && seconds >= long_s)
            peer::say(stderr, "  {} samples at a time: {:.2g} s\n", samples, seconds);
    };
    const bool on_cpu = task.device() == "cpu";  // of a GPU's memory nothing is known
    const auto bytes = [on_cpu] { return on_cpu ? peer::memory_in_use() : 0; };
    DEDLOC_TRY(
        const train::MicroBatchSearch search,
        train::search_micro_batch(learner, peer::micro_batch_options(run), now, bytes, told));
    forecast.micro = search.size();
    forecast.samples_per_second = search.samples_per_s();
    forecast.micro_text = fmt::format("{} samples at a time on this machine, {:.3g} a second: {}",
                                      search.size(),
                                      search.samples_per_s(),
                                      search.why());
    return {};
}

constexpr double timing_s = 0.1;  // shorter ones are repeated: they tell less

// Where the run file says how many samples are computed at a time: how fast that is here.
Ok time_micro_batch(train::SampledModel& learner, Forecast& forecast) {
    std::uint64_t samples = 0;
    double seconds = 0;
    const auto compute = [&]() -> Ok {
        DEDLOC_TRY(const auto report, learner.accumulate({samples, samples + forecast.micro}));
        (void)report;
        samples += forecast.micro;
        return {};
    };
    DEDLOC_TRY_VOID(compute());  // which also pays for what is made but once
    const std::uint64_t before = samples;
    const auto begun = std::chrono::steady_clock::now();
    while (seconds < timing_s) {
        DEDLOC_TRY_VOID(compute());
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    }
    forecast.samples_per_second = static_cast<double>(samples - before) / seconds;
    return {};
}

Result<Forecast> forecast_of(const run::RunFile& run,
                             const tasks::TrainingTask& task,
                             const CheckOptions& options) {
    Forecast forecast;
    DEDLOC_TRY_VOID(peer::check_fits(task, peer::MemoryUse::training, peer::memory_available()));
    const PeerId nobody = security::Identity::generate().id();
    DEDLOC_TRY(const auto learner, task.learner(nobody));
    DEDLOC_TRY_VOID(train::check_recomputable(run, *learner, nobody));
    const run::Layout layout = learner->layout();
    DEDLOC_TRY_VOID(replica::check_fragments(run, layout));
    forecast.parameters = layout.parameters_count;
    DEDLOC_TRY_VOID(forecast_round(run, layout, options, forecast));
    forecast.kept_bytes =
        replica::kept_averages_bytes(layout.vector_count(),
                                     forecast.element_bytes,
                                     replica::kept_averages_usual,
                                     replica::kept_averages_most(runtime::memory_allowed()));
    DEDLOC_TRY(forecast.texts, task.sample_texts(static_cast<std::uint64_t>(options.samples)));
    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> buffers(layout.buffers_count);
    learner->store(parameters, buffers);
    learner->load(parameters, buffers);
    DEDLOC_TRY_VOID(find_micro_batch(run, task, options, *learner, forecast));
    forecast.memory = task.memory(forecast.micro);
    if (run.local && forecast.memory.total() > 0)
        forecast.memory.model += sizeof(float) * layout.parameters_count *
                                 (3 + optim::moments_count(run.local->optimizer));
    forecast.facts = task.facts();
    auto begun = std::chrono::steady_clock::now();
    const auto seconds_since = [&begun] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    };
    DEDLOC_TRY(forecast.first, task.measure(parameters, buffers, 1));  // what is slow but once
    double seconds = seconds_since();
    if (forecast.first.empty()) {
        if (forecast.samples_per_second == 0) DEDLOC_TRY_VOID(time_micro_batch(*learner, forecast));
        if (task.device() == "cpu") forecast.memory_in_use = peer::memory_in_use();
        return forecast;
    }
    if (seconds < slow_sample_s) {
        if (!options.json && run.batch.micro == run::micro_auto)
            peer::say(stderr, "  the loss of {} held-out samples …\n", first_samples);
        begun = std::chrono::steady_clock::now();
        DEDLOC_TRY(forecast.first, task.measure(parameters, buffers, first_samples));
        seconds = seconds_since();
    }
    if (forecast.samples_per_second > 0) return forecast;  // found with the micro-batch
    forecast.samples_per_second =
        tasks::value_of(forecast.first, "samples") / (seconds * forward_and_back);
    return forecast;
}

std::uint64_t parameters_of_one(const tasks::RunExperts& experts) {
    return experts.parameters_bytes / sizeof(float);
}

// From the run file alone: nothing of it is computed here.
Ok count_experts(const run::RunFile& run, const CheckOptions& options, Forecast& forecast) {
    const tasks::TaskKind* kind = tasks::find_task(run.task.kind);
    if (!kind || !kind->experts) return {};
    DEDLOC_TRY(forecast.experts, kind->experts(run.task, {.threads_count = options.threads}));
    return {};
}

void add_experts(const tasks::RunExperts& experts, nlohmann::ordered_json& json) {
    const std::uint64_t count = experts.grid.experts_count();
    json["experts"] = count;
    json["expert_parameters"] = parameters_of_one(experts);
    json["experts_bytes"] = count * experts.bytes_of_one;
}

void print_experts(const tasks::RunExperts& experts) {
    constexpr double mib = 1 << 20;
    const std::uint64_t count = experts.grid.experts_count();
    peer::say(
        stdout,
        "  beside {} experts of {} parameters each, {} in all, where `dedloc serve` runs: {:.0f} "
        "MiB of memory in all with their optimizer's, and what computing takes at each\n",
        count,
        parameters_of_one(experts),
        count * parameters_of_one(experts),
        static_cast<double>(count * experts.bytes_of_one) / mib);
}

nlohmann::ordered_json to_json(const Forecast& forecast, const CheckOptions& options) {
    nlohmann::ordered_json json{{"parameters", forecast.parameters},
                                {"element_bytes", forecast.element_bytes},
                                {"round_bytes", forecast.round_bytes},
                                {"round_seconds", forecast.round_seconds},
                                {"round_peers", options.peers},
                                {"round_mbit", options.mbit},
                                {"kept_bytes", forecast.kept_bytes}};
    if (forecast.memory.total() > 0) {
        json["memory_bytes"] = forecast.memory.total();
        json["memory_activation_bytes"] = forecast.memory.activations;
    }
    if (!forecast.first.empty()) {
        json["first_loss"] = first_loss(forecast.first);
        json["ignorance_loss"] = tasks::value_of(forecast.first, "ignorance_loss");
    }
    for (const tasks::Measure& fact : forecast.facts) json[fact.name] = fact.value;
    if (forecast.memory_in_use > 0) json["memory_in_use_bytes"] = forecast.memory_in_use;
    if (forecast.experts) add_experts(*forecast.experts, json);
    json["micro_batch"] = forecast.micro;
    if (forecast.samples_per_second > 0) json["samples_per_second"] = forecast.samples_per_second;
    if (!forecast.texts.empty()) json["samples"] = forecast.texts;
    return json;
}

void print(const Forecast& forecast, const run::RunFile& run, const CheckOptions& options) {
    constexpr double mib = 1024.0 * 1024.0;
    if (!forecast.micro_text.empty()) peer::say(stdout, "  micro  {}\n", forecast.micro_text);
    peer::say(stdout, "  model  {} parameters\n", forecast.parameters);
    if (forecast.experts) print_experts(*forecast.experts);
    for (const tasks::Measure& fact : forecast.facts)
        peer::say(stdout, "         {} {:.10g}\n", fact.name, fact.value);
    const tasks::MemoryEstimate& memory = forecast.memory;
    if (memory.total() > 0)
        peer::say(
            stdout,
            "  memory about {:.0f} MiB: model and gradients {:.0f}, {} samples at a time {:.0f}, "
            "averaging and states {:.0f}, the program itself {:.0f}\n",
            static_cast<double>(memory.total()) / mib,
            static_cast<double>(memory.model) / mib,
            forecast.micro,
            static_cast<double>(memory.activations) / mib,
            static_cast<double>(memory.collaboration) / mib,
            static_cast<double>(memory.program) / mib);
    else if (forecast.memory_in_use > 0)
        peer::say(stdout,
                  "  memory {:.0f} MiB in use here after {} samples at a time, the program among "
                  "them; averaging and states come on top\n",
                  static_cast<double>(forecast.memory_in_use) / mib,
                  forecast.micro);
    peer::say(stdout,
              "  keeps  averages of the last steps for others, up to {:.0f} MiB\n",
              static_cast<double>(forecast.kept_bytes) / mib);
    peer::say(stdout, "  codec  {}\n", forecast.codecs);
    peer::say(stdout,
              "  round  {} up and down for each of {} equal peers; at {} Mb/s {:.2g} s\n",
              planning::bytes_text(forecast.round_bytes),
              options.peers,
              options.mbit,
              forecast.round_seconds);
    const double vector_bytes = forecast.element_bytes * static_cast<double>(forecast.elements);
    for (const std::string& line :
         robust_lines(run, static_cast<std::size_t>(options.peers), vector_bytes))
        peer::say(stdout, "  robust {}\n", line);
    if (!forecast.first.empty() && !has(forecast.first, "order_loss")) {
        peer::say(stdout,
                  "  start  loss {:.2f} (knowing nothing: {:.2f})\n",
                  first_loss(forecast.first),
                  tasks::value_of(forecast.first, "ignorance_loss"));
    } else if (!forecast.first.empty()) {
        const double words = tasks::value_of(forecast.first, "masked_loss");
        const double order = tasks::value_of(forecast.first, "order_loss");
        peer::say(
            stdout,
            "  start  loss {:.2f} = masked words {:.2f} + order {:.2f} (knowing nothing: {:.2f})\n",
            words + order,
            words,
            order,
            tasks::value_of(forecast.first, "ignorance_loss"));
    }
    if (forecast.samples_per_second > 0)
        peer::say(stdout,
                  "  speed  some {:.3g} samples/s here: {:.3g} s a global step alone\n",
                  forecast.samples_per_second,
                  static_cast<double>(run.batch.target) / forecast.samples_per_second);
    for (const std::string& text : forecast.texts) peer::say(stdout, "  sample {}\n", text);
}

}  // namespace

int run_check(const CheckOptions& options) {
    if (options.run_file.empty())
        return peer::report(
            {peer::ExitCode::bad_input,
             "peer::say what to check: dedloc check RUNFILE, or dedloc check --network "
             "STRING"});
    auto run = given_run_file(options.run_file);
    if (!run) return peer::report(peer::failure(run.error()));
    const std::string problem = robust_problem(*run, static_cast<std::size_t>(options.peers));
    if (!problem.empty()) return peer::report({peer::ExitCode::bad_input, problem});
    const tasks::TaskOptions task_options{.device = options.device,
                                          .threads_count = options.threads,
                                          .data_directory = options.data_directory,
                                          .unprepared = true,
                                          .progress = peer::task_progress(options.json)};
    const auto task = tasks::make_task(run->task, task_options);
    // A run that only another build can train is a valid one.
    const bool elsewhere = !task && task.error().kind() == ErrorKind::unsupported;
    if (!task && !elsewhere) return peer::report(peer::failure(task.error()));
    if (!elsewhere) run->task = (*task)->decided_config().value_or(run->task);
    const std::string hash = run::run_hash(*run).hex();
    Result<Forecast> forecast = Forecast();
    if (!elsewhere) {
        if (!options.json) peer::say(stderr, "computing some samples to measure …\n");
        forecast = forecast_of(*run, **task, options);
    }
    if (forecast)
        if (const Ok counted = count_experts(*run, options, *forecast); !counted)
            forecast = counted.error();
    if (!forecast) return peer::report(peer::failure(forecast.error()));
    const std::string description = elsewhere ? task.error().message() : (*task)->description();
    if (options.json) {
        nlohmann::ordered_json json{
            {"ok", true}, {"name", run->name}, {"run_hash", hash}, {"task", description}};
        if (run->local) {
            json["inner_batch"] = run->local->batch;
            json["inner_steps"] = inner_steps(*run, options.peers);
            json["fragments"] = run->fragments();
        }
        if (elsewhere && forecast->experts) add_experts(*forecast->experts, json);
        if (!elsewhere) json.update(to_json(*forecast, options));
        json["hints"] = run::hints_about(*run);
        peer::say(stdout, "{}\n", monitor::json_line(json));
        return 0;
    }
    peer::say(stdout,
              "{} is a valid run file.\n  run    {} ({})\n  task   {}\n  step   {} samples of all "
              "peers, {} at a time\n  ends   {}\n",
              options.run_file,
              run->name,
              hash.substr(0, 8),
              description,
              run->batch.target,
              run->batch.micro == run::micro_auto ? "as many as each measures to be best"
                                                  : fmt::format("{}", run->batch.micro),
              stop_text(run->stop));
    if (run->local) print_local(*run, options);
    if (!elsewhere)
        print(*forecast, *run, options);
    else if (forecast->experts)
        print_experts(*forecast->experts);
    for (const std::string& hint : run::hints_about(*run)) peer::say(stdout, "  hint   {}\n", hint);
    return 0;
}

}  // namespace dedloc::cli
