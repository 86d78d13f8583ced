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
#include "dedloc/train/model.h"

namespace dedloc::train {

// Tells the collaboration, or the log why there is nothing to tell.
void report_evaluation(const runtime::Spawn& spawn,
                       collab::Collaboration& collaboration,
                       std::uint64_t step,
                       const Result<collab::Evaluation>& evaluation);

class Evaluator {
  public:
    using MakeModel = std::function<Result<std::unique_ptr<SampledModel>>()>;

    Evaluator(runtime::Spawn spawn, collab::Collaboration& collaboration, MakeModel make_model);
    ~Evaluator();

    void request(std::shared_ptr<const state::Snapshot> state);
    // Waits so long until what was requested is measured and reported; is it?
    bool finish_within(Duration timeout);

  private:
    void run();
    SampledModel* model();
    void evaluate(const state::Snapshot& state);

    runtime::Spawn spawn_;
    collab::Collaboration& collaboration_;
    MakeModel make_model_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::unique_ptr<SampledModel> model_;             // made under mutex_, once
    std::shared_ptr<const state::Snapshot> pending_;  // under mutex_, as the next two
    bool busy_ = false;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace dedloc::train
