#include "dedloc/trainer/trainer.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/trainer/evaluator.h"
#include "dedloc/trainer/first_line.h"
#include "dedloc/trainer/recompute.h"

namespace dedloc::trainer {

namespace {

// A step that fails is a round the collaboration could not even end; it tries again by itself.
constexpr int failures_in_a_row_max = 10;
// How often a waiting trainer looks whether it was asked to stop.
constexpr auto stop_poll = std::chrono::milliseconds(50);
// A disk that is full for no longer than that is a matter of a moment, as it is for votes.
constexpr Duration disk_patience = 30s;
// In a row, until the next trainer makes them; so many more for each one after it.
constexpr std::uint64_t evaluations_missed = 2;
// How often one that has computed ahead as much as it may looks after the step.
constexpr auto ahead_poll = std::chrono::milliseconds(2);

// The evaluating peer: the first trainer by PeerId, of those that have a state and stay. It may not
// be able to, and nobody else can tell but by the steps that pass: the one after it takes over, and
// if that cannot, either, later the next. One that can, but slowly, is given the time it needs: or
// all would evaluate at once.
bool evaluates(const collab::Collaboration& collaboration,
               std::uint64_t step,
               EvaluationTurn& turn) {
    const PeerId self = collaboration.status().peer;
    std::uint64_t newest = turn.since;
    std::uint64_t before_us = 0;
    std::uint64_t measured = 0;
    bool met_us = false;
    for (const membership::Status& peer : collaboration.peers()) {  // sorted
        if (peer.accuracy_step <= step) newest = std::max(newest, peer.accuracy_step);
        if (peer.role != membership::Role::trainer || peer.is_newcomer()) continue;
        if (peer.phase == membership::Phase::leaving) continue;
        met_us = met_us || peer.peer == self;
        if (met_us) continue;
        ++before_us;
        if (peer.accuracy_step <= step) measured = std::max(measured, peer.accuracy_step);
    }
    if (measured > std::max(turn.measured, turn.since)) {
        turn.measured = measured;
        turn.taken = step - measured;
    }
    const std::uint64_t patience = evaluations_missed * (turn.every + turn.taken);
    return before_us == 0 || step > newest + (1 + before_us) * patience;
}

}  // namespace

Task<Result<Trainer::Stepped>> Trainer::step_task(collab::Collaboration& collaboration,
                                                  collab::Contribution contribution,
                                                  EvaluationTurn turn) {
    Result<collab::StepOutcome> outcome = co_await collaboration.step(std::move(contribution));
    if (!outcome) co_return std::move(outcome).error();
    Stepped stepped;
    stepped.outcome = std::move(*outcome);
    const std::uint64_t step = stepped.outcome.state ? stepped.outcome.state->step() : 0;
    stepped.evaluates = trainer::evaluates(collaboration, step, turn);
    stepped.turn = turn;
    co_return stepped;
}

Task<Result<bool>> Trainer::ask_evaluates(const collab::Collaboration& collaboration,
                                          std::uint64_t step,
                                          EvaluationTurn turn) {
    co_return trainer::evaluates(collaboration, step, turn);
}

Trainer::Trainer(runtime::Spawn spawn,
                 runtime::Clock& clock,
                 runtime::Disk& disk,
                 collab::Collaboration& collaboration,
                 std::unique_ptr<collab::Learner> learner,
                 TrainerOptions options)
    : spawn_(std::move(spawn)),
      clock_(clock),
      disk_(disk),
      collaboration_(collaboration),
      learner_(std::move(learner)),
      options_(std::move(options)),
      layout_(learner_->layout()),
      micro_batch_(clock,
                   {.samples = options_.micro_batch,
                    .search = options_.micro_search,
                    .again = options_.micro_search_again,
                    .memory = options_.memory,
                    .on_found = options_.on_micro_batch}) {
    learner_->limit_norm(options_.norm_max);
}

Trainer::~Trainer() {
    stop(Duration(0));
    if (thread_.joinable()) thread_.join();
}

void Trainer::start() {
    DEDLOC_CHECK(!thread_.joinable(), "started twice");
    thread_ = std::thread([this] {
        if (options_.computes_on_cpu) runtime::lower_thread_priority();
        outcome_ = run();
        if (options_.on_end && !stopping_) options_.on_end(outcome_);
        ended_ = true;
    });
}

void Trainer::stop(Duration patience) {
    give_up_at_ = (clock_.now() + patience).since_start.count();
    stopping_ = true;
}

Result<void> Trainer::join() {
    if (thread_.joinable()) thread_.join();
    return outcome_;
}

bool Trainer::is_over() const { return stopping_ || collaboration_.stopped(); }

bool Trainer::patience_is_over() const {
    return stopping_ && clock_.now().since_start.count() >= give_up_at_;
}

Result<void> Trainer::run() {
    DEDLOC_TRY(SampleCounter counter, SampleCounter::open(disk_, options_.counter_path));
    if (options_.make_evaluator && options_.evaluate_every > 0) {
        evaluator_ = std::make_unique<Evaluator>(spawn_, collaboration_, options_.make_evaluator);
    }
    micro_batch_.begin();
    collaboration_.trainer_runs(true);
    const Result<void> trained = train_or_say_why(counter);
    collaboration_.trainer_runs(false);
    if (trained && !stopping_) evaluate_the_end();
    while (evaluator_ && !stopping_ && !evaluator_->finish_within(stop_poll)) {
    }
    evaluator_.reset();
    const Result<void> closed = counter.close();
    DEDLOC_TRY_VOID(trained);
    return closed;
}

// A learner throws what it has no way to return: libtorch's memory runs out in load(), too.
Result<void> Trainer::train_or_say_why(SampleCounter& counter) {
    try {
        return train(counter);
    } catch (const std::exception& failure) {
        return make_error(ErrorKind::cannot_compute,
                          "this machine cannot go on training: {} (if memory ran out, --device cpu "
                          "may have more)",
                          first_line(failure));
    }
}

Result<void> Trainer::train(SampleCounter& counter) {
    driver_.emplace(collaboration_, layout_, counter.next());
    if (!start_from(collaboration_.state())) {
        return make_error(ErrorKind::conflict, "the collaboration has no state to train from yet");
    }
    turn_ = {.since = collaboration_.state()->step(), .every = options_.evaluate_every};
    bool more = true;
    while (more && !is_over()) {
        if (in_flight_.valid() && in_flight_.wait_for(0s) == std::future_status::ready) {
            DEDLOC_TRY(more, take_outcome());
            continue;
        }
        if (driver_->begins_check()) DEDLOC_TRY_VOID(check_another());
        switch (driver_->next()) {
            case StepDriver::Next::compute:
                DEDLOC_TRY_VOID(compute(counter));
                break;
            case StepDriver::Next::hand_in: {
                DEDLOC_TRY(more, hand_in(options_.delayed));
                break;
            }
            case StepDriver::Next::wait:
                in_flight_.wait_for(ahead_poll);
                break;
            case StepDriver::Next::end:
                break;  // is_over()
        }
    }
    if (more && in_flight_.valid()) {
        DEDLOC_TRY(more, take_outcome());
    }
    // A leaver's last samples are worth a step; whether one still comes, the collaboration knows.
    if (more && driver_->samples().size() > 0 && !patience_is_over()) {
        DEDLOC_TRY(more, hand_in(/*ahead=*/false));
    }
    return {};
}

// Nothing is accumulated. A check that fails is one that somebody else makes.
Result<void> Trainer::check_another() {
    auto taking = runtime::spawn_future(spawn_, "take a check", collaboration_.take_check());
    const auto job = runtime::wait_for_result(taking);
    if (!job || !*job || is_over()) return {};
    if (auto result = recompute(*learner_, **job, micro_batch_.size())) {
        auto handing = runtime::spawn_future(
            spawn_, "hand in a check", collaboration_.checked(*std::move(result)));
        (void)runtime::wait_for_result(handing);
    } else {
        log(LogLevel::warning, "trainer", "a check: {}", result.error().message());
    }
    start_from(collaboration_.state());
    return {};
}

Result<void> Trainer::compute(SampleCounter& counter) {
    const Result<collab::CounterRange> range = take(counter, micro_batch_.next());
    if (range) return compute(*range);
    if (is_over()) return {};  // what was computed before is handed in all the same
    return range.error();
}

// Ends early, with the disk's error, when there is nothing more to compute.
Result<collab::CounterRange> Trainer::take(SampleCounter& counter, std::uint64_t count) {
    Result<collab::CounterRange> range = counter.take(count);
    if (range || range.error().kind() != ErrorKind::local_fault) return range;
    log(LogLevel::warning,
        "trainer",
        "{}; trying again for {:.0f} s",
        range.error().message(),
        to_seconds(disk_patience));
    const TimePoint until = clock_.now() + disk_patience;
    while (!range && !is_over() && clock_.now() < until) {
        std::future<void> pause = runtime::spawn_future(
            spawn_, "wait for the disk", clock_.sleep_for(options_.disk_tried_again_after));
        while (!is_over() && pause.wait_for(stop_poll) != std::future_status::ready) {
        }
        if (!is_over()) range = counter.take(count);
    }
    return range;
}

Result<void> Trainer::compute(collab::CounterRange range) {
    const TimePoint begun = clock_.now();
    const Result<collab::GradientReport> report = learner_->accumulate(range);
    if (!report) {
        if (range.size() == 1 || !says_out_of_memory(report.error())) return report.error();
        if (micro_batch_.does_not_fit(range.size())) return compute_in_halves(range);
        return report.error().with_context(fmt::format(
            "the run's batch.micro, {} samples at a time, does not fit into the memory here (the "
            "run file could say \"auto\"; --device cpu may have more)",
            range.size()));
    }
    const double seconds = to_seconds(clock_.now() - begun);
    if (!report->finite) {
        driver_->left_out(range);
        return not_finite_.one_more();
    }
    not_finite_.end_row();
    driver_->computed(range, *report, seconds);
    samples_computed_ += range.size();
    micro_batch_.computed(seconds);
    return {};
}

// The samples that were too many at a time are computed all the same.
Result<void> Trainer::compute_in_halves(collab::CounterRange range) {
    const std::uint64_t middle = range.begin + range.size() / 2;
    DEDLOC_TRY_VOID(compute(collab::CounterRange{range.begin, middle}));
    return compute(collab::CounterRange{middle, range.end});
}

Result<bool> Trainer::hand_in(bool ahead) {
    collab::Contribution contribution = driver_->hand_in(
        ahead, [this](std::span<float> sum, std::span<float> buffers, std::uint64_t samples) {
            learner_->take(sum, buffers, samples);
        });
    in_flight_ = runtime::spawn_future(
        spawn_, "step", step_task(collaboration_, std::move(contribution), turn_));
    if (ahead) return true;
    return take_outcome();
}

Result<bool> Trainer::take_outcome() {
    while (in_flight_.wait_for(stop_poll) != std::future_status::ready) {
        if (patience_is_over()) return false;
    }
    std::future<Result<Stepped>> future = std::move(in_flight_);
    Result<Stepped> stepped = runtime::wait_for_result(future);
    if (!stepped) {
        (void)driver_->ended(stepped.error());
        if (stepped.error().kind() == ErrorKind::cancelled) return false;
        if (stepped.error().kind() == ErrorKind::denied) return std::move(stepped).error();
        if (++failures_in_a_row_ >= failures_in_a_row_max) return std::move(stepped).error();
        log(LogLevel::warning, "trainer", "a step failed: {}", to_string(stepped.error()));
        start_from(collaboration_.state());
        return true;
    }
    failures_in_a_row_ = 0;
    turn_ = stepped->turn;
    DEDLOC_TRY_VOID(refused_.next(/*sound=*/!stepped->outcome.refused));
    if (driver_->ended(stepped->outcome))
        go_on_from(*stepped->outcome.state);
    else
        start_from(stepped->outcome.state);
    evaluate_if_due(*stepped);
    return stepped->outcome.kind != collab::StepKind::stopped;
}

void Trainer::evaluate_if_due(const Stepped& stepped) {
    if (!evaluator_ || !stepped.outcome.state) return;
    const std::uint64_t every = options_.evaluate_every;
    const std::uint64_t step = stepped.outcome.state->step();
    if (step / every == evaluated_step_ / every) return;
    // Others' evaluations count as made, so that a change of the evaluating peer repeats none.
    evaluated_step_ = step;
    if (stepped.evaluates) evaluator_->request(stepped.outcome.state);
}

// The run may be over without an outcome that says so.
void Trainer::evaluate_the_end() {
    const std::shared_ptr<const state::Snapshot> state = collaboration_.state();
    if (!evaluator_ || !state || state->step() == evaluated_step_) return;
    std::future<Result<bool>> future = runtime::spawn_future(
        spawn_, "who evaluates", ask_evaluates(collaboration_, state->step(), turn_));
    const Result<bool> ours = runtime::wait_for_result(future);
    if (!ours || !*ours) return;
    evaluated_step_ = state->step();
    evaluator_->request(state);
}

// Gradients computed ahead stay: they go into the step that begins here.
void Trainer::go_on_from(const state::Snapshot& state) {
    learner_->at_step(state.step());
    if (driver_->samples().size() > 0)
        learner_->move_to(replica::parameters_of(state), replica::buffers_of(state));
    else
        learner_->load(replica::parameters_of(state), replica::buffers_of(state));
}

bool Trainer::start_from(const std::shared_ptr<const state::Snapshot>& state) {
    if (!state) return false;
    learner_->at_step(state->step());
    learner_->load(replica::parameters_of(*state), replica::buffers_of(*state));
    return true;
}

}  // namespace dedloc::trainer
