// Evaluator: measures states on held-out data in a thread of its own; the newest state that was
// asked for wins if several wait. Results go to the collaboration.
//
// A model that cannot be made, or an evaluation that fails, is logged, and tried again with the
// next state.
//
// Lifetime: what is passed outlives it; the destructor cancels the evaluation that is running and
// waits for that (one held-out batch). Thread: one caller.

#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "dedloc/collab/collaboration.h"
#include "dedloc/runtime/future.h"

namespace dedloc::trainer {

class Evaluator {
  public:
    using MakeLearner = std::function<Result<std::unique_ptr<collab::Learner>>()>;

    Evaluator(runtime::Spawn spawn, collab::Collaboration& collaboration, MakeLearner make_learner);
    ~Evaluator();

    void request(std::shared_ptr<const state::Snapshot> state);
    // Waits so long until what was requested is measured and reported; is it?
    bool finish_within(Duration patience);

  private:
    void run();
    collab::Learner* learner();
    void evaluate(const state::Snapshot& state);

    runtime::Spawn spawn_;
    collab::Collaboration& collaboration_;
    MakeLearner make_learner_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::unique_ptr<collab::Learner> learner_;        // made under mutex_, once
    std::shared_ptr<const state::Snapshot> pending_;  // under mutex_, as the next two
    bool busy_ = false;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace dedloc::trainer
