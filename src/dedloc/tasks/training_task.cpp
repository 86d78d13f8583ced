#include "dedloc/tasks/training_task.h"

#include <array>
#include <fmt/ranges.h>

#include "dedloc/tasks/vision_classifier.h"

namespace dedloc::tasks {

namespace {

using Make = Result<std::shared_ptr<const TrainingTask>> (*)(const collab::TaskConfig&,
                                                             const TaskOptions&);
struct Kind {
    const char* name;
    Make make;
};
constexpr std::array kinds = {Kind{"vision_classifier", make_vision_classifier}};

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
