#include "experiments/btard_albert.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "dedloc/base/random.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/tasks/training_task.h"

#include "experiments/albert_miniature.h"
#include "experiments/btard_learner.h"
#include "experiments/btard_run.h"
#include "tests/common/exit_codes.h"
#include "tests/sim/model_around.h"

namespace dedloc::lab {
namespace {

constexpr std::uint64_t checkpoint_step = 120;
constexpr std::uint64_t attack_after = 10;  // steps after the checkpoint
constexpr std::uint64_t steps_after_checkpoint = 200;
constexpr std::uint64_t measured_every = 10;
constexpr double loss_lost_max = 0.05;
constexpr double albert_tau = 1;
constexpr const char* paper_words =
    "ALBERT-large, 16 peers of which 7 attack from step 5000 on: the loss spikes to about 10 for "
    "about 15 steps, the attackers are gone after about 25, and it is back near 2.2-2.3 after 80 "
    "to 100 steps (poster, by eye; bans there are drawn by chance, not found)";

constexpr std::string_view btard_albert_rounds = R"(
[batch]
target = 32
micro = 2
[averaging]
codec = "fp32"
leave_out_slow = false
round_deadline_min = "20s"
[robust]
check = 0.25
probation = 0
)";

struct AlbertOutcome {
    VirtualResult result;
    std::map<std::uint64_t, double> loss;  // by step
    std::size_t banned = 0;
    std::size_t honest_banned = 0;
    std::uint64_t last_ban = 0;
    double final_loss() const { return loss.empty() ? 0 : loss.rbegin()->second; }
};

class AlbertRun {
  public:
    AlbertRun(const BtardCommand& command,
              const run::RunFile& run,
              const tasks::TrainingTask& task,
              bool attacked)
        : command_(command), run_(run), task_(task), attacked_(attacked) {
        std::vector<std::size_t> others(btard_trainers - 1);
        for (std::size_t i = 0; i < others.size(); ++i) others[i] = i + 1;
        Random random(command.seed);
        random.shuffle(others);
        attackers_.insert(others.begin(),
                          others.begin() + static_cast<std::ptrdiff_t>(btard_attackers));
    }

    Result<AlbertOutcome> go(std::shared_ptr<const state::Snapshot> from, std::uint64_t until) {
        VirtualRunOptions options;
        options.run = run_;
        options.initial = std::move(from);
        options.steps = until;
        options.time_max = 48h;
        options.seed = command_.seed;
        VirtualMachine machine;
        machine.line = VirtualLine::both_ways(125e6);
        machine.samples_per_s = 2;
        options.machines.assign(btard_trainers, machine);
        if (attacked_)
            for (const std::size_t index : attackers_) options.machines[index].stubborn = true;
        options.make_learner = [this](const PeerId& peer) { return learner(peer); };
        options.on_event = [this, until](const events::Event& event) {
            if (event.step >= told_ + measured_every) tell(event.step, until);
            const auto* order = event.as<events::OrderGiven>();
            if (order == nullptr || order->order != "banned") return;
            if (banned_.insert(event.peer).second) last_ban_ = event.step;
        };
        AlbertOutcome outcome;
        DEDLOC_TRY(outcome.result, run_virtually(options));
        const auto last = replica::parameters_of(*outcome.result.state);
        (*kept_)[until].assign(last.begin(), last.end());
        DEDLOC_TRY(const auto judge, task_.learner(PeerId()));
        for (const auto& [step, parameters] : *kept_) {
            judge->load(parameters, {});
            DEDLOC_TRY(const collab::Evaluation evaluation, judge->evaluate());
            outcome.loss[step] = evaluation.loss;
            fmt::print(stderr,
                       "{} step {:>4}  loss {:.3f}\n",
                       attacked_ ? "attacked" : "clean   ",
                       step,
                       evaluation.loss);
        }
        for (const PeerId& peer : banned_)
            ++(attackers_.contains(machines_.at(peer)) ? outcome.banned : outcome.honest_banned);
        outcome.last_ban = last_ban_;
        return outcome;
    }

  private:
    void tell(std::uint64_t step, std::uint64_t until) {
        told_ = step;
        fmt::print(stderr, "{}: step {} of {}\n", attacked_ ? "attacked" : "clean", step, until);
    }
    Result<std::unique_ptr<train::SampledModel>> learner(const PeerId& peer) {
        const std::size_t machine = machines_.try_emplace(peer, machines_.size()).first->second;
        DEDLOC_TRY(auto made, task_.learner(peer));
        if (machine == 0) return make_keeper(std::move(made), measured_every, kept_);
        if (!attacked_ || !attackers_.contains(machine)) return made;
        return std::unique_ptr<train::SampledModel>(std::make_unique<ScaledModel>(
            std::move(made),
            peer,
            ScaledModel::Error{.factor = sign_flip_factor,
                               .from_step = checkpoint_step + attack_after}));
    }

    const BtardCommand& command_;
    const run::RunFile& run_;
    const tasks::TrainingTask& task_;
    bool attacked_;
    std::set<std::size_t> attackers_;
    std::map<PeerId, std::size_t> machines_;
    std::shared_ptr<KeptParameters> kept_ = std::make_shared<KeptParameters>();
    std::set<PeerId> banned_;
    std::uint64_t last_ban_ = 0;
    std::uint64_t told_ = 0;  // a step
};

Result<std::pair<AlbertOutcome, AlbertOutcome>> clean_and_attacked(
    const BtardCommand& command, const run::RunFile& run, const tasks::TrainingTask& task) {
    AlbertRun before(command, run, task, false);
    DEDLOC_TRY(const AlbertOutcome checkpoint, before.go(nullptr, checkpoint_step));
    const std::uint64_t end = checkpoint_step + steps_after_checkpoint;
    AlbertRun clean(command, run, task, false);
    AlbertRun attacked(command, run, task, true);
    std::optional<Result<AlbertOutcome>> undisturbed;
    std::optional<Result<AlbertOutcome>> disturbed;
    {
        const std::jthread beside([&] { undisturbed = clean.go(checkpoint.result.state, end); });
        disturbed = attacked.go(checkpoint.result.state, end);
    }
    if (!*undisturbed) return std::move(*undisturbed).error();
    if (!*disturbed) return std::move(*disturbed).error();
    return std::pair(**std::move(undisturbed), **std::move(disturbed));
}

}  // namespace

int run_btard_albert(const BtardCommand& command) {
    auto run = run::parse_run_file(albert_miniature("btard-albert", btard_albert_rounds),
                                   "btard-albert.toml");
    DEDLOC_CHECK(run, "our own run file");
    run->robust->tau = albert_tau;
    // One thread: a micro-batch of two samples is soon computed, and two would mostly wait.
    const auto task = tasks::make_task(
        run->task, {.device = "cpu", .threads_count = 1, .data_directory = command.data_directory});
    if (!task) {
        fmt::print(stderr, "dedloc: {}\n", task.error().message());
        return exit_data_missing;
    }
    run->task = (*task)->decided_config().value_or(run->task);
    const auto both = clean_and_attacked(command, *run, **task);
    if (!both) {
        fmt::print(stderr, "dedloc: {}\n", both.error().message());
        return exit_check_failed;
    }
    const auto& [clean, attacked] = *both;
    double worst = 0;
    for (const auto& [step, loss] : attacked.loss) worst = std::max(worst, loss);
    const double lost = attacked.final_loss() - clean.final_loss();
    const bool held =
        all_hold("btard", {at_most("the loss that the attack cost", lost, loss_lost_max)}) &&
        attacked.banned == btard_attackers && attacked.honest_banned == 0 &&
        is_identical("btard", attacked.result.identical);
    const nlohmann::ordered_json json{
        {"ok", held},
        {"loss_clean", clean.final_loss()},
        {"loss_attacked", attacked.final_loss()},
        {"worst", worst},
        {"banned", attacked.banned},
        {"honest_banned", attacked.honest_banned},
        {"last_ban", attacked.last_ban - (checkpoint_step + attack_after)},
        {"paper", paper_words}};
    if (command.json) fmt::print("{}\n", monitor::json_line(json));
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
