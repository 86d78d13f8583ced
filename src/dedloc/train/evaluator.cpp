#include "dedloc/train/evaluator.h"

#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/collab/model_state.h"
#include "dedloc/train/passing_thread.h"

namespace dedloc::train {

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

void Evaluator::finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !pending_ && !busy_; });
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
        on_passing_thread([&] { evaluate(*state); });
        lock.lock();
        busy_ = false;
        changed_.notify_all();
    }
}

// Made once; who fails at that does not try again.
collab::Learner* Evaluator::learner() {
    if (!learner_) {
        learner_ = make_learner_();
        if (!*learner_)
            log(LogLevel::warning, "train", "no evaluation: {}", to_string(learner_->error()));
    }
    return *learner_ ? (*learner_)->get() : nullptr;
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
    learner->load(collab::parameters_of(state), collab::buffers_of(state));
    const Result<collab::Evaluation> evaluation = learner->evaluate();
    if (!evaluation) {
        log(LogLevel::warning, "train", "evaluation failed: {}", to_string(evaluation.error()));
        return;
    }
    std::future<Result<void>> reported = runtime::spawn_future(
        spawn_, "report evaluation", report(collaboration_, state.step(), *evaluation));
    const Result<void> done = runtime::wait_for_result(reported);
    if (!done) log(LogLevel::debug, "train", "evaluation not reported: the program is stopping");
}

}  // namespace dedloc::train
