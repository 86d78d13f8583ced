// Evaluator: measures states on held-out data in a thread of its own; the newest state that was
// asked for wins if several wait. Results go to the collaboration.
//
// Lifetime: what is passed outlives it; the destructor waits for the evaluation that
// is running (a few seconds). Thread: one caller.

#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "dedloc/collab/collaboration.h"
#include "dedloc/runtime/future.h"

namespace dedloc::train {

class Evaluator {
  public:
    using MakeLearner = std::function<Result<std::unique_ptr<collab::Learner>>()>;

    Evaluator(runtime::Spawn spawn, collab::Collaboration& collaboration, MakeLearner make_learner);
    ~Evaluator();

    void request(std::shared_ptr<const state::Snapshot> state);
    void finish();  // waits until what was requested is measured and reported

  private:
    void run();
    collab::Learner* learner();
    void evaluate(const state::Snapshot& state);

    runtime::Spawn spawn_;
    collab::Collaboration& collaboration_;
    MakeLearner make_learner_;
    std::optional<Result<std::unique_ptr<collab::Learner>>> learner_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::shared_ptr<const state::Snapshot> pending_;  // under mutex_, as the next two
    bool busy_ = false;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace dedloc::train
