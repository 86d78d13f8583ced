#include "dedloc/train/loop.h"

#include <chrono>
#include <thread>
#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/base/log.h"
#include "dedloc/train/evaluator.h"
#include "dedloc/train/recompute.h"

namespace dedloc::train {

namespace {

// A step that fails is a round the collaboration could not even end; it tries again by itself.
constexpr int failures_in_a_row_max = 10;
// How often a loop that waits looks whether it still should.
constexpr auto wait_poll = std::chrono::milliseconds(20);
// A disk that is full for no longer than that is a matter of a moment, as it is for votes.
constexpr Duration disk_timeout = 30s;
// How often one that has computed ahead as much as it may looks after the step.
constexpr auto ahead_poll = std::chrono::milliseconds(2);

}  // namespace

LoopOptions loop_options(const run::RunFile& run) {
    return {.delayed = run.averaging.delayed,
            .norm_max = norm_max_of_one(run.averaging.norm_max, run.batch.target),
            .evaluate_every = run.evaluate_every,
            .local = run.local,
            .is_checked = run.is_checked()};
}

// Tells the loop's thread once: of the state that a step leads to, or, with nothing, of its end.
// Thread: the network thread's.
class Loop::NextState {
  public:
    NextState() = default;
    ~NextState() { tell(nullptr); }
    NextState(const NextState&) = delete;
    NextState& operator=(const NextState&) = delete;

    std::future<State> future() { return promise_.get_future(); }
    void tell(State state) {
        if (!std::exchange(told_, true)) promise_.set_value(std::move(state));
    }

  private:
    std::promise<State> promise_;
    bool told_ = false;
};

Task<Result<Loop::Stepped>> Loop::step_task(collab::Collaboration& collaboration,
                                            collab::Contribution contribution,
                                            EvaluationTurn turn,
                                            std::shared_ptr<NextState> next) {
    if (next)
        contribution.on_expected = [told = std::weak_ptr(next)](State state) {
            if (const auto waits = told.lock()) waits->tell(std::move(state));
        };
    Result<collab::StepOutcome> outcome = co_await collaboration.step(std::move(contribution));
    if (next) next->tell(nullptr);
    if (!outcome) co_return std::move(outcome).error();
    Stepped stepped;
    stepped.outcome = std::move(*outcome);
    const std::uint64_t step = stepped.outcome.state ? stepped.outcome.state->step() : 0;
    stepped.evaluates = is_our_turn(collaboration, step, turn);
    stepped.turn = turn;
    co_return stepped;
}

Task<Result<bool>> Loop::ask_evaluates(const collab::Collaboration& collaboration,
                                       std::uint64_t step,
                                       EvaluationTurn turn) {
    co_return is_our_turn(collaboration, step, turn);
}

Loop::Loop(runtime::Spawn spawn,
           runtime::Clock& clock,
           runtime::Disk& disk,
           collab::Collaboration& collaboration,
           Model& model,
           Samples* samples,
           LoopOptions options)
    : spawn_(std::move(spawn)),
      clock_(clock),
      disk_(disk),
      collaboration_(collaboration),
      model_(model),
      samples_(samples),
      options_(std::move(options)),
      accumulation_(make_accumulation(options_.local, options_.is_checked, model_)) {
    if (samples_ != nullptr) samples_->limit_norm(options_.norm_max);
}

Loop::~Loop() = default;

Result<void> Loop::begin() {
    DEDLOC_TRY(counter_, SampleCounter::open(disk_, options_.counter_path));
    if (options_.make_evaluator && options_.evaluate_every > 0)
        evaluator_ = std::make_unique<Evaluator>(spawn_, collaboration_, options_.make_evaluator);
    const std::shared_ptr<const state::Snapshot> state = collaboration_.state();
    if (!state)
        return make_error(ErrorKind::conflict, "the collaboration has no state to train from yet");
    driver_.emplace(collaboration_,
                    model_.layout(),
                    counter_->next(),
                    options_.local ? options_.local->fragments : 1);
    turn_ = {.since = state->step(), .every = options_.evaluate_every};
    begin_at(*state);
    return {};
}

void Loop::begin_at(const state::Snapshot& state) {
    if (samples_ != nullptr) samples_->at_step(state.step());
    accumulation_->begin_at(state);
    driver_->forget(counter_->next());
    step_ = state.step();
}

void Loop::go_on_at(const state::Snapshot& state) {
    if (samples_ != nullptr) samples_->at_step(state.step());
    accumulation_->move_to(state);
    step_ = state.step();
}

// Samples of a paused trainer whose step is not due: others fill the batch, or it goes on with it.
// Handed in, they would wait for a step that nobody else may make.
bool Loop::keeps_its_samples() const {
    return collaboration_.paused() && !in_flight_.valid() && driver_->samples().size() > 0 &&
           !collaboration_.step_due();
}

Result<bool> Loop::until_compute() {
    pause_keeps_samples_ = false;
    for (bool more = true; more && !is_over();) {
        if (next_state_.valid()) {
            DEDLOC_TRY(more, take_next_state());
            continue;
        }
        if (in_flight_.valid() && in_flight_.wait_for(0s) == std::future_status::ready) {
            DEDLOC_TRY(more, take_outcome());
            continue;
        }
        if (driver_->begins_check()) DEDLOC_TRY_VOID(check_another());
        switch (driver_->next()) {
            case StepDriver::Next::compute:
                return true;
            case StepDriver::Next::hand_in: {
                pause_keeps_samples_ = keeps_its_samples();
                if (pause_keeps_samples_) {
                    DEDLOC_TRY_VOID(goes_on());
                    std::this_thread::sleep_for(wait_poll);  // NOLINT(tidy): a user's pause
                    break;
                }
                DEDLOC_TRY(more, hand_in(options_.delayed));
                break;
            }
            case StepDriver::Next::wait:
                DEDLOC_TRY_VOID(goes_on());
                in_flight_.wait_for(ahead_poll);
                break;
            case StepDriver::Next::end:
                return false;
        }
    }
    return false;
}

Result<void> Loop::finish() {
    bool more = true;
    if (next_state_.valid()) {
        DEDLOC_TRY(more, take_next_state());
    }
    if (in_flight_.valid()) {
        DEDLOC_TRY(more, take_outcome());
    }
    // A leaver's last samples are worth a step; whether one still comes, the collaboration knows.
    if (!more || driver_->samples().size() == 0) return {};
    DEDLOC_TRY_VOID(goes_on());
    DEDLOC_TRY(more, hand_in(/*ahead=*/false));
    return {};
}

Result<void> Loop::end() { return counter_ ? counter_->close() : Result<void>(); }

// Nothing is summed. A check that fails is one that somebody else makes.
Result<void> Loop::check_another() {
    auto taking = runtime::spawn_future(spawn_, "take a check", collaboration_.take_check());
    const auto job = runtime::wait_for_result(taking);
    if (!job || !*job || is_over() || samples_ == nullptr) return {};
    if (auto result = recompute(model_, *samples_, *accumulation_, **job, micro_batch_)) {
        for (std::size_t i = 0; options_.falsify_check && i < result->sums.size(); ++i)
            options_.falsify_check(
                (*job)->author, (*job)->pieces[i].state->step(), result->sums[i]);
        auto handing = runtime::spawn_future(
            spawn_, "hand in a check", collaboration_.checked(*std::move(result)));
        (void)runtime::wait_for_result(handing);
    } else {
        log(LogLevel::warning, "trainer", "a check: {}", result.error().message());
    }
    begin_at(*collaboration_.state());
    return {};
}

// Ends early, with the disk's error, when there is nothing more to compute.
Result<collab::CounterRange> Loop::take_numbers(std::uint64_t count) {
    Result<collab::CounterRange> range = counter_->take(count);
    if (range || range.error().kind() != ErrorKind::local_fault) return range;
    log(LogLevel::warning,
        "trainer",
        "{}; trying again for {:.0f} s",
        range.error().message(),
        to_seconds(disk_timeout));
    const TimePoint until = clock_.now() + disk_timeout;
    while (!range && !is_over() && clock_.now() < until) {
        std::future<void> pause = runtime::spawn_future(
            spawn_, "wait for the disk", clock_.sleep_for(options_.disk_tried_again_after));
        while (!is_over() && pause.wait_for(wait_poll) != std::future_status::ready)
            DEDLOC_TRY_VOID(goes_on());
        if (!is_over()) range = counter_->take(count);
    }
    return range;
}

Result<bool> Loop::computed(collab::CounterRange range, GradientReport report, double seconds) {
    if (accumulation_->computed(range.size(), report.finite)) {
        not_finite_.end_row();
        driver_->computed(range, report, seconds);
        return true;
    }
    driver_->left_out(range);
    DEDLOC_TRY_VOID(not_finite_.one_more());
    return false;
}

void Loop::forget() {
    accumulation_->forget();
    driver_->forget(counter_->next());
}

Result<bool> Loop::hand_in(bool ahead) {
    collab::Contribution contribution = driver_->hand_in(
        ahead,
        [this](std::span<float> sum, std::span<float> buffers, std::uint64_t samples) {
            accumulation_->take(sum, buffers, samples);
            if (options_.falsify) options_.falsify(step_, sum);
        },
        step_);
    const bool begins_early = options_.begins_early && !ahead;
    auto next = begins_early ? std::make_shared<NextState>() : nullptr;
    if (next) next_state_ = next->future();
    in_flight_ = runtime::spawn_future(
        spawn_, "step", step_task(collaboration_, std::move(contribution), turn_, std::move(next)));
    if (ahead) return true;
    return begins_early ? take_next_state() : take_outcome();
}

Result<bool> Loop::take_next_state() {
    while (next_state_.wait_for(wait_poll) != std::future_status::ready) DEDLOC_TRY_VOID(goes_on());
    early_ = next_state_.get();
    if (!early_) return take_outcome();
    driver_->goes_ahead();
    if (driver_->has_progress())
        go_on_at(*early_);
    else
        begin_at(*early_);
    return true;
}

Result<bool> Loop::take_outcome() {
    while (in_flight_.wait_for(wait_poll) != std::future_status::ready) DEDLOC_TRY_VOID(goes_on());
    std::future<Result<Stepped>> future = std::move(in_flight_);
    const Result<Stepped> stepped = runtime::wait_for_result(future);
    const State early = std::exchange(early_, nullptr);
    if (!stepped) return step_failed(stepped.error());
    failures_in_a_row_ = 0;
    turn_ = stepped->turn;
    const collab::StepOutcome& outcome = stepped->outcome;
    const bool keeps = driver_->ended(outcome);
    const bool has_it_already = keeps && early && outcome.state == early;
    // Gradients computed ahead stay: they go into the step that begins here.
    if (!has_it_already && keeps && driver_->has_progress())
        go_on_at(*outcome.state);
    else if (!has_it_already && outcome.state)
        begin_at(*outcome.state);
    DEDLOC_TRY_VOID(refused_.next(/*sound=*/!outcome.refused));
    if (options_.on_state && outcome.state) options_.on_state(outcome.state);
    evaluate_if_due(*stepped);
    return outcome.kind != collab::StepKind::stopped;
}

Result<bool> Loop::step_failed(const Error& error) {
    (void)driver_->ended(error);
    if (error.kind() == ErrorKind::cancelled) return false;
    if (error.kind() == ErrorKind::denied) return error;
    if (++failures_in_a_row_ >= failures_in_a_row_max) return error;
    log(LogLevel::warning, "trainer", "a step failed: {}", to_string(error));
    if (const auto state = collaboration_.state()) begin_at(*state);
    return true;
}

void Loop::evaluate_if_due(const Stepped& stepped) {
    if (!evaluates() || !stepped.outcome.state) return;
    const std::uint64_t every = options_.evaluate_every;
    const std::uint64_t step = stepped.outcome.state->step();
    if (step / every == evaluated_step_ / every) return;
    // Others' evaluations count as made, so that a change of the evaluating peer repeats none.
    evaluated_step_ = step;
    if (stepped.evaluates) evaluate(stepped.outcome.state);
}

// The run may be over without an outcome that says so.
void Loop::evaluate_the_end() {
    const std::shared_ptr<const state::Snapshot> state = collaboration_.state();
    if (!evaluates() || !state || state->step() == evaluated_step_) return;
    std::future<Result<bool>> future = runtime::spawn_future(
        spawn_, "who evaluates", ask_evaluates(collaboration_, state->step(), turn_));
    const Result<bool> ours = runtime::wait_for_result(future);
    if (!ours || !*ours) return;
    evaluated_step_ = state->step();
    if (!evaluator_ && state->step() != step_) begin_at(*state);
    evaluate(state);
}

// Between two micro-batches what it leaves in the model is taken back: a gradient, and what a
// forward pass made of the buffers.
void Loop::evaluate(const std::shared_ptr<const state::Snapshot>& state) {
    if (evaluator_) return evaluator_->request(state);
    const Result<collab::Evaluation> evaluation = samples_->evaluate();
    model_.leave_out();
    report_evaluation(spawn_, collaboration_, state->step(), evaluation);
}

void Loop::wait_for_evaluations() {
    while (evaluator_ && !stopping_ && !evaluator_->finish_within(wait_poll)) {
    }
    evaluator_.reset();
}

}  // namespace dedloc::train
