#include "dedloc/tasks/training_task.h"

#include <array>
#include <fmt/ranges.h>

#include "dedloc/tasks/synthetic.h"
#if DEDLOC_WITH_TORCH
#include "dedloc/tasks/albert_task.h"
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
Result<std::shared_ptr<const TrainingTask>> make_elsewhere(const collab::TaskConfig& config,
                                                           const TaskOptions&) {
    return make_error(ErrorKind::unsupported,
                      "this dedloc was built without libtorch and cannot compute the task "
                      "'{}'. ./demo.sh in dedloc's folder builds build/release/bin/dedloc, which "
                      "can; for a machine with an NVIDIA card ./gpu.sh builds build/gpu/bin/dedloc",
                      config.kind);
}
constexpr Make make_albert = make_elsewhere;
constexpr Make make_vision_classifier = make_elsewhere;
#endif

constexpr std::array kinds = {Kind{"vision_classifier", make_vision_classifier},
                              Kind{"albert", make_albert},
                              Kind{"synthetic", make_synthetic}};

}  // namespace

Result<std::vector<Measure>> TrainingTask::measure(std::span<const float>,
                                                   std::span<const float>,
                                                   std::uint64_t) const {
    return std::vector<Measure>();
}

Result<std::vector<std::string>> TrainingTask::export_model(std::span<const float>,
                                                            std::span<const float>,
                                                            const std::string&) const {
    return make_error(ErrorKind::unsupported, "models of this task are not exported yet");
}

Result<std::vector<std::string>> TrainingTask::sample_texts(std::uint64_t) const {
    return std::vector<std::string>();
}

MemoryEstimate TrainingTask::memory(std::uint64_t) const { return {}; }

Result<std::optional<MissingFile>> missing_file(const collab::TaskConfig& config,
                                                const TaskOptions& options) {
#if DEDLOC_WITH_TORCH
    if (config.kind == "albert") return missing_tokenizer(config, options);
#else
    (void)config;
    (void)options;
#endif
    return std::optional<MissingFile>();
}

Ok keep_file(const MissingFile& missing, ByteView file) {
#if DEDLOC_WITH_TORCH
    return keep_missing_tokenizer(missing, file);
#else
    (void)file;
    return make_error(ErrorKind::unsupported, "this build has no use for a {}", missing.what);
#endif
}

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
