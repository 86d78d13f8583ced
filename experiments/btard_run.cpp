#include "experiments/btard_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>

#include "dedloc/base/random.h"
#include "dedloc/measure/median.h"
#include "dedloc/replica/model_state.h"

#include "experiments/image_training.h"
#include "experiments/median_reducers.h"

namespace dedloc::lab {
namespace {

constexpr std::uint64_t mended_after = 30;  // steps since the mistake began
constexpr std::uint64_t quick_samples = 2000;
constexpr float mistaken_scale = 0.6f;
constexpr float mistaken_shift = 0.4f;

// A round after some inner steps of each peer.
void make_local(const BtardCommand& command, run::RunFile& run) {
    run.batch.micro = local_batch;
    run.batch.target = btard_trainers * command.inner_steps * local_batch;
    run.local.emplace();
    run.local->batch = local_batch;
    run.local->optimizer = adamw_over(command.inner_rate, command.steps);
    run.local->optimizer.kind = optim::optimizer_from_string(command.inner).value();
    run.optimizer = {};
    run.optimizer.kind = optim::OptimizerKind::sgd;
    run.optimizer.momentum = command.outer_momentum;
    run.optimizer.nesterov = command.outer_momentum > 0;
    run.optimizer.schedule.peak = command.outer_rate;
}

run::RunFile run_of(const BtardCommand& command, BtardReducer reducer, bool of_few) {
    run::RunFile run;
    run.name = "btard";
    run.task = image_task();
    run.batch.target = of_few ? few_trainers * samples_of_few : btard_trainers * samples_of_each;
    run.batch.micro = samples_of_each;
    run.optimizer.kind = optim::OptimizerKind::sgd;
    run.optimizer.momentum = 0.9;
    run.optimizer.nesterov = true;
    run.optimizer.weight_decay = 5e-4;
    run.optimizer.schedule.peak = command.rate;
    run.optimizer.gradient_norm_max = command.norm_max;
    run.averaging.codec = codec::CodecId::fp32;
    run.averaging.leave_out_slow = false;
    run.averaging.round_deadline_min = 20s;
    run.evaluate_every = 0;
    if (command.local) make_local(command, run);
    if (reducer != BtardReducer::robust) return run;
    run.robust.emplace();
    run.robust->tau = command.tau;
    run.robust->check = command.check;
    return run;
}

std::shared_ptr<const allreduce::Reducer> baseline(BtardReducer reducer) {
    switch (reducer) {
        case BtardReducer::median:
            return std::make_shared<CoordinateMedianReducer>();
        case BtardReducer::geometric_median:
            return std::make_shared<GeometricMedianReducer>();
        default:
            return nullptr;
    }
}

std::size_t attackers_of(Attack attack) {
    switch (attack) {
        case Attack::none:
            return 0;
        case Attack::colluding_pair:
            return 2;
        case Attack::fixed_direction:
            return 1;
        case Attack::new_keys:  // come later
            return 0;
        default:
            return btard_attackers;
    }
}

// How much larger the loss of a step is than usual just before it.
class LossJumps {
  public:
    void take(const events::StepMade& made, std::uint64_t from) {
        if (!std::isfinite(made.loss)) return;
        if (made.step != step_) close(from);
        step_ = made.step;
        of_step_.push_back(made.loss);
    }
    double largest() const { return largest_; }

  private:
    // A step has the mean loss of all members that tell one.
    void close(std::uint64_t from) {
        if (of_step_.empty()) return;
        double sum = 0;
        for (const double loss : of_step_) sum += loss;
        const double mean = sum / static_cast<double>(of_step_.size());
        of_step_.clear();
        constexpr std::size_t looked_at = 8;
        if (before_.size() == looked_at) {
            const double usual = measure::median({before_.begin(), before_.end()});
            if (step_ >= from) largest_ = std::max(largest_, mean / usual);
            before_.pop_front();
        }
        before_.push_back(mean);
    }

    std::uint64_t step_ = 0;
    std::vector<double> of_step_;
    std::deque<double> before_;
    double largest_ = 0;
};

class BtardRun {
  public:
    BtardRun(const BtardCommand& command,
             std::shared_ptr<const tasks::FashionMnist> data,
             Attack attack,
             BtardReducer reducer,
             bool of_few)
        : command_(command),
          data_(std::move(data)),
          conspiracy_(std::make_shared<Conspiracy>()),
          mistake_(std::make_shared<Preparation>()),
          kept_(std::make_shared<KeptParameters>()) {
        row_.attack = attack;
        row_.reducer = reducer;
        row_.of_few = of_few;
        conspiracy_->attack = attack;
        conspiracy_->from_step = command.attack_from;
        conspiracy_->at_hand_in = command.local;
        std::vector<std::size_t> others((of_few ? few_trainers : btard_trainers) - 1);
        for (std::size_t i = 0; i < others.size(); ++i) others[i] = i + 1;
        Random random(command.seed);
        random.shuffle(others);
        const std::size_t wrong = command.mistakes ? 2 : attackers_of(attack);
        chosen_.insert(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(wrong));
    }

    Result<BtardRow> run();

  private:
    Result<std::unique_ptr<train::SampledModel>> learner(const PeerId& peer);
    void hear(const events::Event& event);
    void note_order_of_honest(const events::Event& event, const events::OrderGiven& order);
    Ok evaluate();
    void add_machines(VirtualRunOptions& options);
    void lie_between_steps(VirtualRunOptions& options);
    bool attacks() const { return row_.attack != Attack::none && !command_.mistakes; }

    const BtardCommand& command_;
    std::shared_ptr<const tasks::FashionMnist> data_;
    std::shared_ptr<Conspiracy> conspiracy_;
    std::shared_ptr<Preparation> mistake_;
    std::shared_ptr<KeptParameters> kept_;
    std::set<std::size_t> chosen_;            // machines that attack, or err
    std::map<PeerId, std::size_t> machines_;  // in the order of their first learner
    std::set<PeerId> banned_;
    std::set<PeerId> probation_;
    std::set<PeerId> back_;
    LossJumps jumps_;
    BtardRow row_;
};

// Machines ask for their learners one after the other.
Result<std::unique_ptr<train::SampledModel>> BtardRun::learner(const PeerId& peer) {
    const std::size_t machine = machines_.try_emplace(peer, machines_.size()).first->second;
    const bool wrong = chosen_.contains(machine);
    auto preparation = std::make_shared<Preparation>();
    if (wrong && command_.mistakes) preparation = mistake_;
    DEDLOC_TRY(auto made, make_picture_learner(data_, command_.seed, peer, preparation));
    // The keys come after the others.
    const std::size_t first_key = few_trainers - 1;
    if (machine == 0) return make_keeper(std::move(made), looked_at_every, kept_);
    if (!wrong || !attacks()) return made;
    conspiracy_->members.insert(peer);
    if (row_.attack == Attack::new_keys) {
        const std::uint64_t gone = command_.attack_from + key_steps * (machine - first_key + 1);
        conspiracy_->own_time[peer] = {gone - lies_of_key, gone};
    }
    return make_attacker(std::move(made), peer, preparation, conspiracy_);
}

void BtardRun::note_order_of_honest(const events::Event& event, const events::OrderGiven& order) {
    const auto found = machines_.find(event.peer);
    if (found == machines_.end() || chosen_.contains(found->second)) return;
    row_.honest_orders.insert({event.step, found->second, order.order, order.offence});
}

void BtardRun::hear(const events::Event& event) {
    if (const auto* order = event.as<events::OrderGiven>()) {
        if (order->order == "banned" && banned_.insert(event.peer).second)
            row_.last_ban = event.step;
        if (order->order == "on probation") probation_.insert(event.peer);
        note_order_of_honest(event, *order);
        if (order->about_us) row_.told.insert(event.peer);
    }
    if (event.is<events::OrderEnded>()) back_.insert(event.peer);
    if (event.is<events::CheckMade>()) ++row_.checks;
    const auto* made = event.as<events::StepMade>();
    if (made != nullptr) jumps_.take(*made, command_.attack_from);
    if (made == nullptr || !command_.mistakes) return;
    const bool errs =
        made->step >= command_.attack_from && made->step < command_.attack_from + mended_after;
    mistake_->scale = errs ? mistaken_scale : 1;
    mistake_->shift = errs ? mistaken_shift : 0;
}

Ok BtardRun::evaluate() {
    const auto honest = std::make_shared<Preparation>();
    DEDLOC_TRY(const auto all, make_picture_learner(data_, command_.seed, PeerId(), honest));
    DEDLOC_TRY(const auto some,
               make_picture_learner(data_, command_.seed, PeerId(), honest, quick_samples));
    for (const auto& [step, parameters] : *kept_) {
        const bool whole =
            step == 200 || step == 300 || step == command_.steps || step == command_.attack_from;
        train::SampledModel& learner = whole ? *all : *some;
        learner.load(parameters, {});
        DEDLOC_TRY(const collab::Evaluation evaluation, learner.evaluate());
        row_.accuracy[step] = evaluation.accuracy;
    }
    return {};
}

void BtardRun::add_machines(VirtualRunOptions& options) {
    VirtualMachine machine;
    machine.line = VirtualLine::both_ways(125e6);
    machine.samples_per_s = (row_.of_few ? samples_of_few : samples_of_each) * 8;
    if (command_.local)
        machine.samples_per_s = static_cast<double>(command_.inner_steps * local_batch);
    const bool new_keys = row_.attack == Attack::new_keys;
    options.machines.assign(row_.of_few ? few_trainers - (new_keys ? 1 : 0) : btard_trainers,
                            machine);
    for (const std::size_t index : chosen_) options.machines[index].stubborn = attacks();
    for (std::uint64_t from = command_.attack_from; new_keys && from + key_steps <= command_.steps;
         from += key_steps) {
        chosen_.insert(options.machines.size());
        machine.from_step = from;
        machine.until_step = from + key_steps;
        options.machines.push_back(machine);
    }
}

void BtardRun::lie_between_steps(VirtualRunOptions& options) {
    options.falsify = [this](const PeerId& self,
                             std::uint64_t step,
                             collab::CounterRange samples,
                             std::span<float> sum) {
        lie_at_hand_in(*conspiracy_, self, step, samples, sum);
    };
    options.falsify_check = [this](const PeerId& self,
                                   const PeerId& author,
                                   std::uint64_t step,
                                   collab::CounterRange samples,
                                   std::span<float> sum) {
        lie_in_check(*conspiracy_, self, author, step, samples, sum);
    };
}

Result<BtardRow> BtardRun::run() {
    const auto begun = std::chrono::steady_clock::now();
    VirtualRunOptions options;
    options.run = run_of(command_, row_.reducer, row_.of_few);
    options.reducer = baseline(row_.reducer);
    options.make_learner = [this](const PeerId& peer) { return learner(peer); };
    options.on_event = [this](const events::Event& event) { hear(event); };
    if (command_.local && attacks()) lie_between_steps(options);
    options.steps = command_.steps;
    options.time_max = 24h;
    options.seed = command_.seed;
    add_machines(options);
    DEDLOC_TRY(const VirtualResult result, run_virtually(options));
    const auto last = replica::parameters_of(*result.state);
    (*kept_)[command_.steps].assign(last.begin(), last.end());
    DEDLOC_TRY_VOID(evaluate());
    const auto is_wrong = [this](const PeerId& peer) {
        const auto found = machines_.find(peer);
        return found != machines_.end() && chosen_.contains(found->second);
    };
    row_.banned = static_cast<std::size_t>(std::ranges::count_if(banned_, is_wrong));
    row_.honest_banned = banned_.size() - row_.banned;
    row_.attackers = attacks() ? chosen_.size() : 0;
    row_.loss_jump = jumps_.largest();
    // A key that is gone errs no second time: it weighs nothing for good.
    if (row_.attack == Attack::new_keys)
        row_.banned = static_cast<std::size_t>(std::ranges::count_if(probation_, is_wrong));
    row_.honest_on_probation = static_cast<std::size_t>(
        std::ranges::count_if(probation_, [&](const PeerId& peer) { return !is_wrong(peer); }));
    row_.back = back_.size();
    row_.identical = result.identical;
    row_.samples = result.samples_computed;
    row_.bytes = result.bytes;
    row_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    return row_;
}

}  // namespace

bool is_on_few(Attack attack) {
    return attack == Attack::colluding_pair || attack == Attack::fixed_direction ||
           attack == Attack::new_keys;
}

std::string_view name_of(BtardReducer reducer) {
    switch (reducer) {
        case BtardReducer::mean:
            return "mean";
        case BtardReducer::robust:
            return "robust";
        case BtardReducer::median:
            return "coordinate_median";
        case BtardReducer::geometric_median:
            return "geometric_median";
    }
    return "mean";
}

double BtardRow::at(std::uint64_t step) const {
    const auto found = accuracy.find(step);
    return found == accuracy.end() ? 0 : found->second;
}

Result<BtardRow> run_btard_row(const BtardCommand& command,
                               std::shared_ptr<const tasks::FashionMnist> data,
                               Attack attack,
                               BtardReducer reducer,
                               bool of_few) {
    BtardRun run(command, std::move(data), attack, reducer, of_few);
    auto row = run.run();
    return row;
}

}  // namespace dedloc::lab
