#include "experiments/albert_mini.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "dedloc/monitor/json_line.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/tasks/training_task.h"

#include "experiments/albert_miniature.h"
#include "experiments/mini_collaboration.h"
#include "tests/common/exit_codes.h"
#include "tests/common/temporary_folder.h"

namespace dedloc::lab {
namespace {

constexpr double samples_ratio_bound = 1.1;
constexpr std::uint64_t measure_every = 10;  // global steps

constexpr std::string_view albert_mini_rounds = R"(
[averaging]
round_deadline_min = "2s"
round_deadline_max = "60s"
quorum_timeout = "10s"
)";

double processor_seconds() {
    return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

// Losses by samples, until they are low enough.
class Curve {
  public:
    Curve(const AlbertMiniCommand& command, const tasks::TrainingTask& task, std::string name)
        : command_(command), task_(task), name_(std::move(name)) {}

    Ok measure(std::uint64_t step, std::uint64_t samples, std::span<const float> parameters) {
        DEDLOC_TRY(const auto measures, task_.measure(parameters, {}, 0));
        const double loss = tasks::value_of(measures, "masked_loss");
        const auto here = static_cast<double>(samples);
        if (loss <= command_.loss && !reached_) {
            const double fallen = last_loss_ - loss;
            const double part = fallen > 0 ? (last_loss_ - command_.loss) / fallen : 1;
            samples_to_loss_ = last_samples_ + part * (here - last_samples_);
            reached_ = true;
        }
        last_loss_ = loss;
        last_samples_ = here;
        fmt::print(stderr,
                   "{:<9} step {:>4}  {:>6} samples  masked words {:.3f}  order {:.3f}  {:.0f} s\n",
                   name_,
                   step,
                   samples,
                   loss,
                   tasks::value_of(measures, "order_loss"),
                   seconds());
        return {};
    }

    bool reached() const { return reached_; }
    bool over() const {
        return reached_ || last_samples_ >= static_cast<double>(command_.samples_max) ||
               seconds() > command_.seconds_max;
    }
    double loss() const { return last_loss_; }
    double samples() const { return reached_ ? samples_to_loss_ : last_samples_; }
    double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    }

  private:
    const AlbertMiniCommand& command_;
    const tasks::TrainingTask& task_;
    std::string name_;
    std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
    double last_loss_ = 0;
    double last_samples_ = 0;
    double samples_to_loss_ = 0;
    bool reached_ = false;
};

const MiniPlan churn{.acts = {{30, MiniDeed::kill, 3, "peer 3 is killed"},
                              {50, MiniDeed::join, 3, "peer 3 comes back"},
                              {70, MiniDeed::leave, 2, "peer 2 leaves in order"},
                              {90, MiniDeed::join, 5, "peer 5 joins"},
                              {120, MiniDeed::kill, 1, "peer 1, the host, is killed"},
                              {140, MiniDeed::join, 2, "peer 2 comes back"}},
                     .observe_every = measure_every};

}  // namespace

// ---- the command --------------------------------------------------------------------------------

int run_albert_mini(const AlbertMiniCommand& command) {
    auto run =
        run::parse_run_file(albert_miniature("albert-mini", albert_mini_rounds), "albert-mini");
    if (!run) return exit_after(run.error());
    run->batch.target = command.target;
    run->batch.micro = command.micro;
    const tasks::TaskOptions options{.device = "cpu", .threads_count = 1};
    const auto task = tasks::make_task(run->task, options);
    if (!task) return exit_after(task.error());
    run->task = (*task)->decided_config().value_or(run->task);

    Curve alone(command, **task, "alone");
    double processor = processor_seconds();
    const LookAlone look_alone = [&](std::uint64_t step,
                                     std::span<const float> parameters) -> Result<bool> {
        DEDLOC_TRY_VOID(alone.measure(step, step * command.target, parameters));
        return alone.over();
    };
    if (const Ok trained = train_alone(*run, **task, measure_every, look_alone); !trained)
        return exit_after(trained.error());
    const double processor_alone = processor_seconds() - processor;
    const double seconds_alone = alone.seconds();

    const auto folder = TemporaryFolder::make();
    if (!folder) return exit_after(folder.error());
    Curve curve(command, **task, "together");
    processor = processor_seconds();
    MiniCollaboration together(*run, **task, folder->path(), churn);
    const auto look = [&](const state::Snapshot& state) -> Result<bool> {
        DEDLOC_TRY_VOID(
            curve.measure(state.step(), state.info().samples, replica::parameters_of(state)));
        return curve.over();
    };
    if (const Ok trained = together.train(look); !trained) return exit_after(trained.error());
    const bool identical = together.identical();
    const bool held = alone.reached() && curve.reached() && identical &&
                      curve.samples() <= samples_ratio_bound * alone.samples();
    const nlohmann::ordered_json json{{"ok", held},
                                      {"loss", curve.loss()},
                                      {"loss_alone", alone.loss()},
                                      {"samples", curve.samples()},
                                      {"samples_alone", alone.samples()},
                                      {"ratio", curve.samples() / alone.samples()},
                                      {"steps", together.steps()},
                                      {"churn", together.done()},
                                      {"identical", identical},
                                      {"state_hashes", together.final_hashes()},
                                      {"steps_compared", together.compared()},
                                      {"steps_different", together.different()},
                                      {"seconds", curve.seconds()},
                                      {"seconds_alone", seconds_alone},
                                      {"processor_seconds", processor_seconds() - processor},
                                      {"processor_seconds_alone", processor_alone}};
    if (command.json) {
        fmt::print("{}\n", monitor::json_line(json));
    } else {
        fmt::print(
            "masked words reach {:.2f} after {:.0f} samples alone and {:.0f} together "
            "({:.2f} times); {} steps, after {} of {} compared ones hashes differed\n",
            command.loss,
            alone.samples(),
            curve.samples(),
            curve.samples() / alone.samples(),
            together.steps(),
            together.different(),
            together.compared());
    }
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
