// What a run trains, chosen by the run file's task.kind: the data and makers of learners.
//
//   DEDLOC_TRY(auto task, tasks::make_task(run.task, {.device = "auto", .threads_count = 1}));
//   DEDLOC_TRY(auto learner, task->learner(my_id));     // for the trainer's thread
//   DEDLOC_TRY(auto second, task->learner(my_id));      // for the evaluating thread
//
// Kinds: "vision_classifier", in builds with libtorch
//   model  "small_cnn" (105,866 parameters), "mlp" (50,890), "cnn_bn" (with BatchNorm)
//   data   "fashion-mnist", "fashion-mnist+flip" (each sample mirrored or not, by its number)
// "synthetic", in every build (synthetic.h)
//   model  "bowl" (4,096 parameters), "bowl-N"
//   data   "noise", "noise-Nms" (each gradient takes at least N ms, without using the CPU)
//
// Learners share the data and may be used on different threads, one thread each.
// Errors: bad_input    unknown kind, model or data; names the known ones
//         not_found    data missing on this machine; names the package that brings it
//         unsupported  "cuda" without CUDA; a task of libtorch in a build without it

#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dedloc/collab/learner.h"
#include "dedloc/collab/run_file.h"

namespace dedloc::tasks {

struct TaskOptions {
    std::string device = "auto";   // "cpu", "cuda", "cuda:1"
    int threads_count = 0;         // of one operation of libtorch; 0: its own choice
    std::string data_directory{};  // empty: where the Debian package puts the data
};

class TrainingTask {
  public:
    virtual ~TrainingTask() = default;
    // `peer` decides the order of samples.
    virtual Result<std::unique_ptr<collab::Learner>> learner(const PeerId& peer) const = 0;
    virtual std::string device() const = 0;
    virtual std::string description() const = 0;  // one line for people
};

std::vector<std::string> task_kinds();
Result<std::shared_ptr<const TrainingTask>> make_task(const collab::TaskConfig& config,
                                                      const TaskOptions& options);

}  // namespace dedloc::tasks
