#include "dedloc/trainer/evaluator.h"

#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/trainer/first_line.h"
#include "dedloc/trainer/passing_thread.h"

namespace dedloc::trainer {

Evaluator::Evaluator(runtime::Spawn spawn,
                     collab::Collaboration& collaboration,
                     MakeLearner make_learner)
    : spawn_(std::move(spawn)),
      collaboration_(collaboration),
      make_learner_(std::move(make_learner)),
      thread_([this] { run(); }) {}

Evaluator::~Evaluator() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        if (learner_) learner_->cancel_evaluation();
    }
    changed_.notify_all();
    thread_.join();
}

void Evaluator::request(std::shared_ptr<const state::Snapshot> state) {
    {
        const std::lock_guard lock(mutex_);
        pending_ = std::move(state);
    }
    changed_.notify_all();
}

bool Evaluator::finish_within(Duration patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return !pending_ && !busy_; });
}

void Evaluator::run() {
    runtime::lower_thread_priority();
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return pending_ || stopping_; });
        if (stopping_) return;
        const std::shared_ptr<const state::Snapshot> state = std::exchange(pending_, nullptr);
        busy_ = true;
        lock.unlock();
        try {
            on_passing_thread([&] { evaluate(*state); });
        } catch (const std::exception& failure) {  // libtorch's, of loading the state
            log(LogLevel::warning, "trainer", "evaluation failed: {}", first_line(failure));
        }
        lock.lock();
        busy_ = false;
        changed_.notify_all();
    }
}

collab::Learner* Evaluator::learner() {
    if (learner_) return learner_.get();
    auto made = make_learner_();
    if (!made) {
        log(LogLevel::warning, "trainer", "no evaluation: {}", to_string(made.error()));
        return nullptr;
    }
    const std::lock_guard lock(mutex_);
    learner_ = *std::move(made);
    if (stopping_) learner_->cancel_evaluation();
    return learner_.get();
}

namespace {

Task<Result<void>> report(collab::Collaboration& collaboration,
                          std::uint64_t step,
                          collab::Evaluation evaluation) {
    collaboration.report_evaluation(step, evaluation);
    co_return Result<void>();
}

}  // namespace

void Evaluator::evaluate(const state::Snapshot& state) {
    collab::Learner* const learner = this->learner();
    if (!learner) return;
    learner->load(replica::parameters_of(state), replica::buffers_of(state));
    const Result<collab::Evaluation> evaluation = learner->evaluate();
    if (!evaluation) {
        if (evaluation.error().kind() == ErrorKind::cancelled) return;
        log(LogLevel::warning, "trainer", "evaluation failed: {}", to_string(evaluation.error()));
        return;
    }
    std::future<Result<void>> reported = runtime::spawn_future(
        spawn_, "report evaluation", report(collaboration_, state.step(), *evaluation));
    const Result<void> done = runtime::wait_for_result(reported);
    if (!done) log(LogLevel::debug, "trainer", "evaluation not reported: the program is stopping");
}

}  // namespace dedloc::trainer
