#include "experiments/swav_mini.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "dedloc/audit/audit.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/replica/model_state.h"

#include "experiments/mini_collaboration.h"
#include "experiments/replay.h"
#include "tests/common/exit_codes.h"
#include "tests/common/temporary_folder.h"

namespace dedloc::lab {
namespace {

constexpr double knn_100_wanted = 0.70;
constexpr double knn_last_wanted = 0.73;
constexpr double knn_gained_wanted = 0.02;  // a network that learnt nothing has some 0.71
constexpr double loss_wanted = 2.8;
constexpr std::uint64_t early_step = 100;
constexpr std::uint64_t kill_step = 150;
constexpr std::uint64_t join_step = 250;
constexpr std::uint64_t loss_steps = 10;

constexpr std::string_view swav_mini_run = R"(
name = "swav-mini"
[task]
kind = "swav"
model = "small"
data = "fashion-mnist"
[swav]
large_side = 28
large_scale_min = 0.5
small_crops = 4
small_side = 14
small_scale_min = 0.2
small_scale_max = 0.5
blur = 0.0
strength = 0.5
epsilon = 0.03
prototypes_frozen_until = 30
[batch]
target = 128
micro = 32
[optimizer]
kind = "sgd"
momentum = 0.9
weight_decay = 1e-6
larc = true
larc_clip = false
larc_trust = 0.001
[schedule]
kind = "cosine"
peak = 6.0
warmup_steps = 10
warmup_start = 1.0
total_steps = 600
final_fraction = 0.002
[averaging]
round_deadline_min = "2s"
round_deadline_max = "60s"
quorum_timeout = "10s"
[evaluate]
every = 0
)";

class SwavMini {
  public:
    SwavMini(const SwavMiniCommand& command,
             const run::RunFile& run,
             const tasks::TrainingTask& task,
             const std::string& folder)
        : command_(command), run_(run), task_(task), together_(run, task, folder, plan()) {}

    Ok run();
    nlohmann::ordered_json json() const;
    bool held() const;

  private:
    using Clock = std::chrono::steady_clock;
    static MiniPlan plan() {
        return {.acts = {{kill_step, MiniDeed::kill, 3, "peer 3 is killed"},
                         {join_step, MiniDeed::join, 5, "peer 5 joins"}},
                .observe_every = 1};
    }
    double seconds() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }
    Result<bool> observe(const state::Snapshot& newest);
    Ok play();
    Ok measure(const state::Snapshot& state);
    double loss() const;
    bool replays() const;

    const SwavMiniCommand& command_;
    const run::RunFile& run_;
    const tasks::TrainingTask& task_;
    MiniCollaboration together_;
    Clock::time_point begun_ = Clock::now();
    std::shared_ptr<const state::Snapshot> first_;
    struct Quality {
        double knn = 0;
        double linear = 0;
    };
    std::map<std::uint64_t, Quality> qualities_;  // by step: the first, about 100, the last
    std::optional<Replayed> replayed_;
    double trained_s_ = 0;
};

Ok SwavMini::measure(const state::Snapshot& state) {
    DEDLOC_TRY(const auto measures,
               task_.measure(replica::parameters_of(state), replica::buffers_of(state), 0));
    const Quality quality{tasks::value_of(measures, "neighbours_accuracy"),
                          tasks::value_of(measures, "linear_accuracy")};
    qualities_[state.step()] = quality;
    fmt::print(stderr,
               "step {:>4}  20 nearest neighbours {:.3f}, linear probe {:.3f}  {:.0f} s\n",
               state.step(),
               quality.knn,
               quality.linear,
               seconds());
    return {};
}

Result<bool> SwavMini::observe(const state::Snapshot& newest) {
    if (seconds() > command_.seconds_max)
        return make_error(ErrorKind::timeout, "only {} steps were made", newest.step());
    if (newest.step() >= early_step && qualities_.size() == 1) DEDLOC_TRY_VOID(measure(newest));
    if (newest.step() < command_.steps) return false;
    trained_s_ = seconds();
    DEDLOC_TRY_VOID(measure(newest));
    return true;
}

Ok SwavMini::play() {
    DEDLOC_TRY(const auto logs, audit::read_logs({together_.directory(1)}));
    DEDLOC_TRY(replayed_,
               replay({.task = task_,
                       .run = run_,
                       .first = first_,
                       .certificates = logs.front().certificates,
                       .hashes = together_.hashes(),
                       .steps = together_.steps()}));
    return {};
}

Ok SwavMini::run() {
    {
        DEDLOC_TRY(const auto learner, task_.learner(PeerId()));
        DEDLOC_TRY(first_, mini_first_state(run_, *learner));
    }
    DEDLOC_TRY_VOID(measure(*first_));
    begun_ = Clock::now();
    DEDLOC_TRY_VOID(
        together_.train([this](const state::Snapshot& newest) { return observe(newest); }));
    return command_.replay ? play() : Ok();
}

// The loss of the last steps.
double SwavMini::loss() const {
    double sum = 0;
    double count = 0;
    for (const auto& [step, loss] : together_.losses())
        if (step + loss_steps > together_.steps() && step <= together_.steps()) {
            sum += loss;
            ++count;
        }
    return sum / std::max(count, 1.0);
}

bool SwavMini::replays() const {
    return replayed_ && replayed_->states_different == 0 && replayed_->parts_different == 0;
}

bool SwavMini::held() const {
    const double early = std::next(qualities_.begin())->second.knn;
    const double last = qualities_.rbegin()->second.knn;
    return early >= knn_100_wanted && last >= knn_last_wanted &&
           last >= qualities_.begin()->second.knn + knn_gained_wanted && loss() <= loss_wanted &&
           together_.identical() && (replays() || !command_.replay);
}

nlohmann::ordered_json SwavMini::json() const {
    const auto early = std::next(qualities_.begin());
    const auto last = qualities_.rbegin();
    const auto& hashes = together_.final_hashes();
    nlohmann::ordered_json json{
        {"ok", held()},
        {"knn_0", qualities_.begin()->second.knn},
        {"knn_100", early->second.knn},
        {"knn_600", last->second.knn},
        {"linear_0", qualities_.begin()->second.linear},
        {"linear_600", last->second.linear},
        {"loss_first", together_.losses().begin()->second},
        {"loss", loss()},
        {"state_hashes", std::set<std::string>(hashes.begin(), hashes.end()).size()},
        {"steps_compared", together_.compared()},
        {"steps_different", together_.different()},
        {"steps", together_.steps()},
        {"measured_at_steps", {early->first, last->first}},
        {"churn", together_.done()},
        {"seconds_training", trained_s_},
        {"seconds", seconds()}};
    if (!replayed_) return json;
    json["replay_identical"] = replays();
    json["replay_steps"] = replayed_->steps;
    json["replay_states_different"] = replayed_->states_different;
    json["replay_parts_different"] = replayed_->parts_different;
    json["members_least"] = replayed_->members_least;
    json["members_most"] = replayed_->members_most;
    json["samples"] = replayed_->samples;
    return json;
}

}  // namespace

int run_swav_mini(const SwavMiniCommand& command) {
    auto run = run::parse_run_file(swav_mini_run, "swav-mini");
    if (!run) return exit_after(run.error());
    const tasks::TaskOptions options{.device = "cpu", .threads_count = 1};
    const auto task = tasks::make_task(run->task, options);
    if (!task) return exit_after(task.error());
    const auto folder = TemporaryFolder::make();
    if (!folder) return exit_after(folder.error());
    SwavMini mini(command, *run, **task, folder->path());
    if (const Ok done = mini.run(); !done) return exit_after(done.error());
    const nlohmann::ordered_json json = mini.json();
    if (command.json)
        fmt::print("{}\n", monitor::json_line(json));
    else
        fmt::print("{}\n", json.dump(2));
    return mini.held() ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
