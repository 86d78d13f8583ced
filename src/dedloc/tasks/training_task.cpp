#include "dedloc/tasks/training_task.h"

#include <array>
#include <fmt/ranges.h>

#include "dedloc/tasks/synthetic.h"
#if DEDLOC_WITH_TORCH
#include "dedloc/tasks/vision_classifier.h"
#endif

namespace dedloc::tasks {

namespace {

using Make = Result<std::shared_ptr<const TrainingTask>> (*)(const collab::TaskConfig&,
                                                             const TaskOptions&);
struct Kind {
    const char* name;
    Make make;
};

#if !DEDLOC_WITH_TORCH
Result<std::shared_ptr<const TrainingTask>> make_vision_classifier(const collab::TaskConfig&,
                                                                   const TaskOptions&) {
    return make_error(ErrorKind::unsupported,
                      "this dedloc was built without libtorch and cannot compute the task "
                      "'vision_classifier'; use a build with libtorch (preset release)");
}
#endif

constexpr std::array kinds = {Kind{"vision_classifier", make_vision_classifier},
                              Kind{"synthetic", make_synthetic}};

}  // namespace

std::vector<std::string> task_kinds() {
    std::vector<std::string> names;
    for (const Kind& kind : kinds) names.emplace_back(kind.name);
    return names;
}

Result<std::shared_ptr<const TrainingTask>> make_task(const collab::TaskConfig& config,
                                                      const TaskOptions& options) {
    for (const Kind& kind : kinds) {
        if (config.kind == kind.name) return kind.make(config, options);
    }
    return make_error(ErrorKind::bad_input,
                      "task.kind: there is no task '{}'; this build knows {}",
                      config.kind,
                      fmt::join(task_kinds(), ", "));
}

}  // namespace dedloc::tasks
