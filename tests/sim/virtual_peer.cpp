#include "tests/sim/virtual_peer.h"

#include <utility>

#include "dedloc/collab/lab.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/train/recompute.h"

namespace dedloc::lab {
namespace {

constexpr Duration join_timeout = 600s;
constexpr Duration poll_every = 20ms;

}  // namespace

VirtualPeer::VirtualPeer(sim::World& world,
                         sim::SimNode& node,
                         const VirtualRunOptions& options,
                         const VirtualMachine& machine,
                         VirtualListener& listener)
    : world_(world),
      node_(node),
      options_(options),
      machine_(machine),
      listener_(listener),
      changed_(world.executor()),
      scope_(world.executor()) {}

Ok VirtualPeer::make(std::vector<std::string> bootstrap, const VirtualLine& granted) {
    static const security::ToyVerifier verifier;  // has no state
    collab::CollaborationOptions options;
    options.run = options_.run;
    options.secret = Bytes(16, 7);
    options.name = node_.name();
    options.bootstrap = std::move(bootstrap);
    options.kept_bytes_max = 64u << 20;
    options.kept_steps = 8;
    options.join_timeout = join_timeout;
    options.upload_max = granted.up_bytes_per_s;
    options.download_max = granted.down_bytes_per_s;
    collab::Planted planted;
    planted.reducer = options_.reducer;
    options.stubborn = machine_.stubborn;
    if (machine_.aggregates) {
        options.role = membership::Role::aggregator;
    } else {
        DEDLOC_TRY(learner_, options_.make_learner(node_.id()));
        accumulation_ =
            train::make_accumulation(options_.run.local, options_.run.is_checked(), *learner_);
        layout_ = options.layout = learner_->layout();
    }
    if (options.bootstrap.empty() && options_.initial) {
        options.initial = options_.initial;
    } else if (options.bootstrap.empty()) {
        std::vector<float> parameters(layout_.parameters_count);
        std::vector<float> buffers(layout_.buffers_count);
        learner_->store(parameters, buffers);
        DEDLOC_TRY(options.initial,
                   replica::initial_state(
                       options.run, layout_, std::move(parameters), std::move(buffers)));
    }
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

void VirtualPeer::begin() {
    if (machine_.aggregates)
        scope_.spawn("assist", assist());
    else
        scope_.spawn("train", train());
}

void VirtualPeer::go() {
    going_ = true;
    changed_.pulse();
}

Task<void> VirtualPeer::end() {
    co_await scope_.stop();
    if (collaboration_) co_await collaboration_->stop();
}

Task<void> VirtualPeer::leave_task() {
    co_await collaboration_->leave(options_.leave_grace_period);
    left_ = true;
}

Task<void> VirtualPeer::assist() {
    const Result<void> started = co_await collaboration_->start();
    if (!started) failure_ = started.error().message();
    ready_ = true;
}

void VirtualPeer::start_from(const state::Snapshot& state) {
    step_ = state.step();
    learner_->at_step(step_);
    accumulation_->begin_at(state);
}

Task<void> VirtualPeer::compute() {
    const std::uint64_t micro = options_.run.batch.micro;
    const double seconds = static_cast<double>(micro) / machine_.samples_per_s;
    co_await node_.clock().sleep_for(from_seconds(seconds));
    const std::uint64_t begin = driver_->samples().end;
    const collab::CounterRange range{begin, begin + micro};
    if (machine_.claims_s > 0) {
        driver_->computed(range, train::GradientReport{}, machine_.claims_s);
        co_return;
    }
    const auto report = learner_->accumulate(range);
    if (!report || !accumulation_->computed(range.size(), report->finite)) {
        failure_ = report ? "a gradient is not finite" : report.error().message();
        co_return;
    }
    driver_->computed(range, *report, seconds);
    computing_s_ += seconds;
    samples_computed_ += micro;
}

// In the time that it takes.
Task<void> VirtualPeer::check_another() {
    const auto job = co_await collaboration_->take_check();
    if (!job || !*job) co_return;
    auto result =
        train::recompute(*learner_, *learner_, *accumulation_, **job, options_.run.batch.micro);
    if (!result) {
        failure_ = result.error().message();
        co_return;
    }
    double samples = 0;
    for (std::size_t i = 0; i < (*job)->pieces.size(); ++i) {
        const validation::CheckPiece& piece = (*job)->pieces[i];
        samples += static_cast<double>(piece.samples.size());
        if (options_.falsify_check)
            options_.falsify_check(
                node_.id(), (*job)->author, piece.state->step(), piece.samples, result->sums[i]);
    }
    co_await node_.clock().sleep_for(from_seconds(samples / machine_.samples_per_s));
    (void)co_await collaboration_->checked(*std::move(result));
    start_from(*collaboration_->state());
}

Task<void> VirtualPeer::step_beside(collab::Contribution contribution) {
    auto outcome = co_await collaboration_->step(std::move(contribution));
    outcome_.emplace(std::move(outcome));
    changed_.pulse();
}

Task<void> VirtualPeer::hand_in() {
    handed_in_at_ = world_.now();
    const bool ahead = options_.run.averaging.delayed && !collaboration_->stopped();
    const train::StepDriver::TakeSums take =
        [this](std::span<float> sum, std::span<float> buffers, std::uint64_t samples) {
            accumulation_->take(sum, buffers, samples);
            if (options_.falsify) options_.falsify(node_.id(), step_, driver_->samples(), sum);
        };
    collab::Contribution contribution = driver_->hand_in(ahead, take, step_);
    if (ahead) {
        scope_.spawn("step", step_beside(std::move(contribution)));
        co_return;
    }
    co_await step_beside(std::move(contribution));
    take_outcome();
}

void VirtualPeer::take_outcome() {
    const Result<collab::StepOutcome> outcome = *std::exchange(outcome_, std::nullopt);
    const bool goes_on = driver_->ended(outcome);
    if (!outcome && outcome.error().kind() == ErrorKind::denied) {
        kept_out_ = true;
        return;
    }
    if (!outcome) {
        failure_ = outcome.error().message();
        return;
    }
    const auto& state = outcome->state;
    listener_.on_round(state->step(), to_seconds(world_.now() - handed_in_at_));
    if (goes_on && driver_->has_progress()) {
        step_ = state->step();
        learner_->at_step(step_);
        accumulation_->move_to(*state);
        return;
    }
    start_from(*state);
}

Task<void> VirtualPeer::train() {
    const Result<void> started = co_await collaboration_->start();
    if (!started) {
        failure_ = started.error().message();
        co_return;
    }
    ready_ = true;
    while (!going_) co_await changed_.wait();
    const auto begun = collaboration_->state();
    using Next = train::StepDriver::Next;
    driver_.emplace(*collaboration_,
                    layout_,
                    std::uint64_t{node_.incarnation()} << 24,
                    options_.run.fragments());
    start_from(*begun);
    while (failure_.empty() && !kept_out_) {
        if (outcome_) take_outcome();
        if (driver_->begins_check()) co_await check_another();
        const Next next = driver_->next();
        if (next == Next::end) break;
        if (next == Next::compute) {
            co_await compute();
        } else if (next == Next::wait || machine_.claims_s > 0) {
            const TimePoint inspect = node_.clock().now() + poll_every;
            (void)co_await changed_.wait_until(node_.clock(), inspect);
        } else {
            co_await hand_in();
        }
    }
    if (failure_.empty() && !kept_out_ && driver_->samples().size() > 0 && machine_.claims_s == 0)
        co_await hand_in();
}

}  // namespace dedloc::lab
