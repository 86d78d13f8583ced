#include "tests/sim/sim_peer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dedloc/collab/lab.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/state/manifest.h"

#include "tests/sim/sample_gradients.h"

namespace dedloc::lab {
namespace {

constexpr Duration poll_pause = 20ms;      // while a step is made and there is nothing to compute
constexpr double machine_noise = 1e-3;     // of a robust run's gradients, relative
constexpr std::uint64_t spikes_every = 7;  // steps of a robust run
constexpr float spike = 20;

// The optimizer's momentum has gained so much: v' = momentum v + gradient.
double applied_length(const state::Snapshot& before,
                      const state::Snapshot& after,
                      const optim::OptimizerConfig& optimizer) {
    const std::string_view name = optim::moment_name(optimizer, 0);
    const std::vector<float>& old = before.find(name)->values;
    const std::vector<float>& now = after.find(name)->values;
    double squares = 0;
    for (std::size_t i = 0; i < now.size(); ++i) {
        const double gained =
            static_cast<double>(now[i]) - optimizer.momentum * static_cast<double>(old[i]);
        squares += gained * gained;
    }
    return std::sqrt(squares);
}

}  // namespace

allreduce::CenteredClipRule SimRun::clip_rule() const {
    const run::RobustConfig& robust = run.robust.value();
    return {robust.tau,
            static_cast<std::uint32_t>(robust.iterations_max),
            robust.eps,
            robust.weight_cap};
}

SimRun make_sim_run(std::uint64_t elements,
                    consensus::PlantedBugs bugs,
                    bool delayed,
                    std::size_t group_max,
                    codec::CodecId codec,
                    std::optional<run::RobustConfig> robust) {
    SimRun sim;
    sim.run.averaging.group_max = group_max;
    sim.run.averaging.delayed = delayed;
    sim.run.name = "lab";
    sim.run.batch.target = 128;
    sim.run.batch.micro = sim_micro_batch;
    sim.run.averaging.codec = codec;
    sim.run.averaging.part_elements_max =
        codec::is_sparse(codec) ? codec::block_elements(codec) : 96;
    sim.run.averaging.quorum_timeout = 6s;
    sim.run.averaging.round_deadline_min = 1s;
    sim.run.averaging.round_deadline_max = 8s;
    sim.layout.parameters_count = elements;
    sim.layout.parameters.push_back(
        {"bowl", 0, static_cast<std::size_t>(elements), /*decay=*/true, /*trust=*/true});
    sim.run.robust = std::move(robust);
    sim.secret = Bytes(16, 7);
    sim.bugs = bugs;
    return sim;
}

void make_local(run::RunFile& run) {
    run.local.emplace();
    run.local->batch = 2 * run.batch.micro;
    run.local->optimizer.kind = optim::OptimizerKind::adamw;
    run.local->optimizer.schedule.peak = 0.01;
    run.optimizer = {};
    run.optimizer.kind = optim::OptimizerKind::sgd;
    run.optimizer.momentum = 0.5;
    run.optimizer.nesterov = true;
    run.optimizer.schedule.peak = 1;
}

void add_gradient(std::size_t peer,
                  consensus::CounterRange samples,
                  std::span<const float> parameters,
                  std::span<float> sum) {
    const auto weight = static_cast<float>(samples.size());
    std::uint64_t noise = base::mix64(base::mix64(peer + 1) ^ samples.begin);
    for (std::size_t k = 0; k < sum.size(); ++k) {
        noise = noise * 6364136223846793005u + 1442695040888963407u;
        const auto value = static_cast<float>(static_cast<std::uint32_t>(noise >> 48)) / 8192.0f;
        const float pull = weight * (parameters[k] - 0.5f);
        sum[k] += pull + (value - 4.0f);
    }
}

SimPeer::SimPeer(sim::World& world, sim::SimNode& node, Setup setup)
    : world_(world), node_(node), setup_(std::move(setup)), scope_(world.executor()) {
    sum_.assign(setup_.run.layout.vector_count(), 0.0f);
    if (setup_.run.run.local && !setup_.aggregates)
        local_ = std::make_unique<LocalPeer>(
            setup_.run.layout,
            setup_.run.run,
            node_.id(),
            [this](const PeerId& author,
                   std::uint64_t step,
                   consensus::CounterRange samples,
                   std::span<const float> parameters,
                   std::span<float> sum) {
                const std::size_t index = world_.find(author)->index();
                if (setup_.run.run.robust)
                    add_spiked(index, samples, step, parameters, sum);
                else
                    add_gradient(index, samples, parameters, sum);
            },
            [this](const std::string& what) {
                setup_.checkers.violation(node_.name() + ": " + what);
            });
}

Ok SimPeer::make() {
    static const security::ToyVerifier verifier;  // has no state
    collab::CollaborationOptions options;
    options.run = setup_.run.run;
    options.secret = setup_.run.secret;
    options.layout = setup_.run.layout;
    options.name = node_.name();
    options.bootstrap = setup_.bootstrap;
    options.status_interval = setup_.run.status_interval;
    options.kept_bytes_max = 4u << 20;
    options.join_timeout = 600s;
    collab::Planted planted;
    planted.bugs = setup_.run.bugs;
    if (setup_.run.run.averaging.is_sparse())
        planted.on_frozen = [this](const collab::FrozenContribution& frozen) {
            setup_.checkers.on_frozen(node_.id(), node_.incarnation(), frozen);
        };
    planted.bugs.hides_evidence = setup_.tells_on_nobody;
    planted.bugs.orders_falsely = setup_.orders_falsely;
    planted.bugs.plans_alone = setup_.plans_alone;
    if (setup_.plans_alone) planted.bugs.minimum_unchecked = true;  // it votes for what it proposes
    options.stubborn = !setup_.lie.stops_when_told;
    options.upload_max = setup_.upload_max;
    options.download_max = setup_.download_max;
    if (setup_.aggregates) {
        options.role = membership::Role::aggregator;
        options.layout = {};
        // Less than what all contribute: the bound is hit in most rounds.
        options.reduce_bytes_max = 2048;
    }
    if (options.bootstrap.empty() && !setup_.aggregates) {
        std::vector<float> parameters(setup_.run.layout.parameters_count, 1.0f);
        DEDLOC_TRY(options.initial,
                   replica::initial_state(options.run, options.layout, std::move(parameters), {}));
    }
    if (setup_.adjust) setup_.adjust(options);
    DEDLOC_TRY(collaboration_,
               collab::make_planted(node_.runtime(),
                                    node_.host(),
                                    node_.signer(),
                                    verifier,
                                    std::move(options),
                                    this,
                                    std::move(planted)));
    return {};
}

void SimPeer::begin() {
    if (setup_.aggregates)
        scope_.spawn("assist", assist());
    else
        scope_.spawn("train", train());
}

Task<void> SimPeer::assist() {
    const Result<void> started = co_await collaboration_->start();
    if (!started) {
        failure_ = started.error().message();
        co_return;
    }
    running_ = true;
    running_since_ = world_.now();
}

void SimPeer::leave(Duration grace_period) {
    leaving_ = true;
    scope_.spawn("leave", leave_task(grace_period));
}

Task<void> SimPeer::leave_task(Duration grace_period) {
    co_await collaboration_->leave(grace_period);
    left_ = true;
    running_ = false;
}

Task<void> SimPeer::end() {
    running_ = false;
    co_await scope_.stop();
    if (collaboration_) co_await collaboration_->stop();
}

std::uint64_t SimPeer::step() const {
    if (collaboration_ && setup_.aggregates) return collaboration_->status().step;
    const auto state = collaboration_ ? collaboration_->state() : nullptr;
    return state ? state->step() : 0;
}

void SimPeer::record(const events::Event& event) {
    if (const auto* made = event.as<events::StepMade>()) {
        const auto state = collaboration_->state();
        setup_.checkers.on_state(
            node_.name(), state->info().branch, state->step(), made->state_hash, world_.now());
    }
    if (const auto* order = event.as<events::OrderGiven>()) told_ = told_ || order->about_us;
    if (setup_.on_event) setup_.on_event(*this, event);
}

void SimPeer::take_state(std::shared_ptr<const state::Snapshot> state) {
    if (state == state_) return;
    if (state_ && setup_.run.run.robust && state->info().branch == state_->info().branch &&
        state->step() == state_->step() + 1)
        setup_.checkers.on_applied(state->info().branch,
                                   state->step(),
                                   applied_length(*state_, *state, setup_.run.run.optimizer));
    state_ = std::move(state);
    // Hashed here again, so that a wrong claim in a status would show.
    root_ = state::make_manifest(*state_).root;
    setup_.checkers.on_state(
        node_.name(), state_->info().branch, state_->step(), root_, world_.now());
}

void SimPeer::compute(double seconds) {
    const std::uint64_t begin = driver_->samples().end;
    const consensus::CounterRange samples{begin, begin + setup_.micro_batch};
    if (local_)
        local_->compute(samples);
    else if (setup_.run.run.robust)
        add_spiked(node_.index(), samples, state_->step(), replica::parameters_of(*state_), sum_);
    else
        add_gradient(node_.index(), samples, replica::parameters_of(*state_), sum_);
    const train::GradientReport report{.loss_sum = static_cast<double>(setup_.micro_batch)};
    driver_->computed(samples, report, seconds);
}

// Now and then gradients are far longer than usual, everybody's.
void SimPeer::add_spiked(std::size_t author,
                         consensus::CounterRange samples,
                         std::uint64_t step,
                         std::span<const float> parameters,
                         std::span<float> sum) const {
    std::vector<float> gradients(sum.size(), 0.0f);
    add_sample_gradients(author, samples, parameters, gradients);
    const float factor = step % spikes_every == spikes_every - 1 ? spike : 1.0f;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += factor * gradients[i];
}

bool SimPeer::lies_about_itself() const {
    const LearnerLie& lie = setup_.lie;
    const bool lies = lie.factor != 1 || lie.direction != 0;
    return lies && world_.now() >= lie.from && !(lie.stops_when_told && told_);
}

void SimPeer::lie(std::uint64_t samples, std::span<float> sum) const {
    const LearnerLie& lie = setup_.lie;
    const float instead = lie.direction * static_cast<float>(samples);
    for (float& value : sum) value = lie.direction != 0 ? instead : value * lie.factor;
}

validation::CheckResult SimPeer::computed_again(const validation::CheckJob& job) {
    if (local_) {
        auto result = local_->again(job);
        DEDLOC_CHECK(result.has_value());
        local_->begin_at(*state_);
        return *std::move(result);
    }
    validation::CheckResult result;
    result.number = job.number;
    for (const validation::CheckPiece& piece : job.pieces) {
        std::vector<float>& sum = result.sums.emplace_back(setup_.run.layout.vector_count(), 0.0f);
        add_spiked(world_.find(job.author)->index(),
                   piece.samples,
                   piece.state->step(),
                   replica::parameters_of(*piece.state),
                   sum);
    }
    return result;
}

// As this machine rounds, and as it lies.
void SimPeer::change_finding(const PeerId& of,
                             const validation::CheckPiece& piece,
                             std::span<float> sum) {
    add_machine_noise(node_.index(), piece.samples, machine_noise, sum);
    const std::size_t author = world_.find(of)->index();
    if (world_.now() >= setup_.lie.from && setup_.lie.accomplices.contains(author))
        lie(piece.samples.size(), sum);
    if (world_.now() < setup_.lie.from || setup_.lie.factor_of_checks == 1) return;
    ++lies_told_;
    for (float& value : sum) value *= setup_.lie.factor_of_checks;
}

// In the time that it takes.
Task<void> SimPeer::check_another() {
    const auto job = co_await collaboration_->take_check();
    if (!job || !*job) co_return;
    validation::CheckResult result = computed_again(**job);
    double samples = 0;
    for (std::size_t i = 0; i < result.sums.size(); ++i) {
        const validation::CheckPiece& piece = (*job)->pieces[i];
        samples += static_cast<double>(piece.samples.size());
        change_finding((*job)->author, piece, result.sums[i]);
    }
    if (!setup_.lie.answers_checks && world_.now() >= setup_.lie.from) {
        ++lies_told_;
        co_return;
    }
    co_await node_.clock().sleep_for(from_seconds(samples / setup_.samples_per_s));
    ++checks_answered_;
    (void)co_await collaboration_->checked(std::move(result));
}

Task<void> SimPeer::train() {
    const Result<void> started = co_await collaboration_->start();
    if (!started) {
        failure_ = started.error().message();
        co_return;
    }
    running_ = true;
    running_since_ = world_.now();
    take_state(collaboration_->state());
    if (local_) local_->begin_at(*state_);
    const double seconds = static_cast<double>(setup_.micro_batch) / setup_.samples_per_s;
    const Duration duration = from_seconds(seconds);
    using Next = train::StepDriver::Next;
    driver_.emplace(*collaboration_,
                    setup_.run.layout,
                    std::uint64_t{node_.incarnation()} << 24,
                    setup_.run.run.fragments());
    for (;;) {
        if (outcome_) take_outcome();
        if (driver_->begins_check()) co_await check_another();
        const Next next = driver_->next();
        if (next == Next::end) break;
        if (next == Next::compute) {
            co_await node_.clock().sleep_for(duration);
            compute(seconds);
        } else if (next == Next::wait) {
            co_await node_.clock().sleep_for(poll_pause);
        } else {
            co_await hand_in();
        }
    }
    if (driver_->samples().size() > 0) co_await hand_in();
    running_ = false;
}

Task<void> SimPeer::hand_in() {
    const consensus::CounterRange samples = driver_->samples();
    const bool ahead = setup_.run.run.averaging.delayed && !collaboration_->stopped();
    const train::StepDriver::TakeSums take =
        [this, samples](std::span<float> sum, std::span<float> /*buffers*/, std::uint64_t count) {
            if (local_) local_->take(sum_, count);
            if (setup_.run.run.robust) change_sum(samples);
            std::ranges::copy(sum_, sum.begin());
        };
    collab::Contribution contribution = driver_->hand_in(ahead, take, state_->step());
    HandedIn handed_in{
        contribution.samples, std::move(sum_), root_, world_.now(), ahead_, contribution.moved};
    setup_.checkers.on_handed_in(node_.id(), std::move(handed_in));
    sum_.assign(setup_.run.layout.vector_count(), 0.0f);
    ahead_ = {};
    if (ahead) {
        scope_.spawn("step", step_beside(std::move(contribution)));
        co_return;
    }
    co_await step_beside(std::move(contribution));
    const bool refused = !outcome_->has_value();
    take_outcome();
    // A peer that is kept out of the run is told so at once, each time.
    if (refused) co_await node_.clock().sleep_for(poll_pause);
}

// As this machine rounds, and as it lies.
void SimPeer::change_sum(consensus::CounterRange samples) {
    add_machine_noise(node_.index(), samples, machine_noise, sum_);
    if (!lies_about_itself()) return;
    ++lies_told_;
    if (!lied_first_at_) lied_first_at_ = state_->step();
    lie(samples.size(), sum_);
}

Task<void> SimPeer::step_beside(collab::Contribution contribution) {
    auto outcome = co_await collaboration_->step(std::move(contribution));
    outcome_.emplace(std::move(outcome));
}

void SimPeer::take_outcome() {
    const Result<collab::StepOutcome> outcome = *std::exchange(outcome_, std::nullopt);
    const bool goes_on = driver_->ended(outcome);
    if (!outcome) {
        failure_ = outcome.error().message();
        return;
    }
    if (!goes_on) sum_.assign(setup_.run.layout.vector_count(), 0.0f);
    const bool moves = goes_on && driver_->has_progress();
    if (local_ && moves) local_->move_to(*outcome->state);
    if (local_ && !moves) local_->begin_at(*outcome->state);
    const Digest computed_at = root_;
    // The step's, not the newest: the collaboration may be further already.
    take_state(outcome->state);
    if (driver_->samples().size() == 0 || root_ == computed_at) return;
    ahead_ = computed_at;
    samples_ahead_ += driver_->samples().size();
}

}  // namespace dedloc::lab
