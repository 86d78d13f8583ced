#include "dedloc/templates/home_settings.h"

#include <algorithm>
#include <vector>

#include "dedloc/planning/light_advice.h"
#include "dedloc/run/run_file.h"
#include "dedloc/templates/run_file_settings.h"

namespace dedloc::templates {
namespace {

constexpr std::string_view home_text_name = "the task's settings";
// Measured between sparse rounds (docs/few-bytes.md): what is not sent yet is a momentum of its
// own, so that the outer one is small and the inner rate larger than with dense rounds.
constexpr double outer_momentum = 0.3;
constexpr double outer_rate = 1.4;  // beside rounds; without averaging.delayed it would be 1
constexpr double inner_rate_factor = 2;

class Settings {
  public:
    template <typename Value>
    void set(std::string_view key, const Value& value) {
        list_.push_back(fmt::format("{}={}", key, value));
    }
    // A number of global steps, for rounds so many times as long.
    void set_steps(std::string_view key, std::uint64_t steps, double longer) {
        if (steps == 0) return;
        const double fewer = static_cast<double>(steps) / longer;
        set(key, std::max<std::uint64_t>(1, static_cast<std::uint64_t>(fewer)));
    }
    const std::vector<std::string>& list() const { return list_; }

  private:
    std::vector<std::string> list_;
};

// The run's own schedule is taken for the steps between rounds.
void set_inner(Settings& settings, const run::RunFile& run, double longer) {
    const optim::Schedule& schedule = run.optimizer.schedule;
    settings.set("local.batch", run.local->batch);
    settings.set("local.optimizer.kind", "adamw");
    settings.set("local.optimizer.weight_decay", run.optimizer.weight_decay);
    settings.set("local.schedule.kind", optim::to_string(schedule.kind));
    settings.set("local.schedule.peak", inner_rate_factor * run.local->optimizer.schedule.peak);
    settings.set_steps("local.schedule.warmup_steps", schedule.warmup_steps, longer);
    settings.set_steps("local.schedule.total_steps", schedule.total_steps, longer);
    settings.set("local.schedule.final_fraction", schedule.final_fraction);
}

void set_outer(Settings& settings, const run::RunFile& run) {
    settings.set("optimizer.kind", "sgd");
    settings.set("optimizer.momentum", outer_momentum);
    settings.set("optimizer.nesterov", true);
    if (run.optimizer.weight_decay != 0) settings.set("optimizer.weight_decay", 0);
    if (run.optimizer.gradient_norm_max != 0) settings.set("optimizer.gradient_norm_max", 0);
    settings.set("schedule.kind", "constant");
    settings.set("schedule.peak", outer_rate);
    if (run.optimizer.schedule.warmup_steps != 0) settings.set("schedule.warmup_steps", 0);
    if (run.optimizer.schedule.total_steps != 0) settings.set("schedule.total_steps", 0);
}

}  // namespace

Result<std::string> settings_for_home(const std::string& settings,
                                      std::string_view local_example,
                                      std::size_t homes) {
    if (local_example.empty())
        return make_error(ErrorKind::bad_input,
                          "this task makes no local updates, which --home is about; "
                          "averaging.codec = \"sparse\" alone sends fewer bytes as well");
    DEDLOC_TRY(
        const run::RunFile run,
        run::parse_run_file(settings + "\n[local]\n" + std::string(local_example), home_text_name));
    const std::uint64_t target =
        planning::usual_local_steps * run.local->batch * static_cast<std::uint64_t>(homes);
    const double longer = static_cast<double>(target) / static_cast<double>(run.batch.target);
    Settings home;
    home.set("batch.target", target);
    set_inner(home, run, longer);
    set_outer(home, run);
    home.set("averaging.codec", "sparse");
    home.set("averaging.delayed", true);
    home.set_steps("stop.steps", run.stop.steps, longer);
    home.set_steps("checkpoint.every", run.checkpoint_every, longer);
    home.set_steps("evaluate.every", run.evaluate_every, longer);
    return with_settings(settings, home.list(), home_text_name);
}

}  // namespace dedloc::templates
