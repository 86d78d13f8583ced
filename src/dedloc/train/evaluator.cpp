#include "dedloc/train/evaluator.h"

#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/train/first_line.h"
#include "dedloc/train/passing_thread.h"

namespace dedloc::train {

namespace {

Task<Result<void>> report(collab::Collaboration& collaboration,
                          std::uint64_t step,
                          collab::Evaluation evaluation) {
    collaboration.report_evaluation(step, evaluation);
    co_return Result<void>();
}

}  // namespace

void report_evaluation(const runtime::Spawn& spawn,
                       collab::Collaboration& collaboration,
                       std::uint64_t step,
                       const Result<collab::Evaluation>& evaluation) {
    if (!evaluation) {
        if (evaluation.error().kind() == ErrorKind::cancelled) return;
        log(LogLevel::warning, "trainer", "evaluation failed: {}", to_string(evaluation.error()));
        return;
    }
    std::future<Result<void>> reported =
        runtime::spawn_future(spawn, "report evaluation", report(collaboration, step, *evaluation));
    const Result<void> done = runtime::wait_for_result(reported);
    if (!done) log(LogLevel::debug, "trainer", "evaluation not reported: the program is stopping");
}

Evaluator::Evaluator(runtime::Spawn spawn,
                     collab::Collaboration& collaboration,
                     MakeModel make_model)
    : spawn_(std::move(spawn)),
      collaboration_(collaboration),
      make_model_(std::move(make_model)),
      thread_([this] { run(); }) {}

Evaluator::~Evaluator() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        if (model_) model_->cancel_evaluation();
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

bool Evaluator::finish_within(Duration timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] { return !pending_ && !busy_; });
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

SampledModel* Evaluator::model() {
    if (model_) return model_.get();
    auto made = make_model_();
    if (!made) {
        log(LogLevel::warning, "trainer", "no evaluation: {}", to_string(made.error()));
        return nullptr;
    }
    const std::lock_guard lock(mutex_);
    model_ = *std::move(made);
    if (stopping_) model_->cancel_evaluation();
    return model_.get();
}

void Evaluator::evaluate(const state::Snapshot& state) {
    SampledModel* const model = this->model();
    if (!model) return;
    model->load(replica::parameters_of(state), replica::buffers_of(state));
    report_evaluation(spawn_, collaboration_, state.step(), model->evaluate());
}

}  // namespace dedloc::train
