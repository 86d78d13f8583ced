#include "dedloc/tasks/registry.h"

#include <fmt/ranges.h>

namespace dedloc::tasks {

namespace {

using TaskKinds = std::map<std::string, TaskKind, std::less<>>;

// A function's own, so that registrations of other sources find it made.
TaskKinds& all_kinds() {
    static TaskKinds kinds;
    return kinds;
}

Error not_in_this_build(std::string_view kind) {
    return make_error(ErrorKind::unsupported,
                      "this dedloc was built without libtorch and cannot compute the task "
                      "'{}'. ./demo.sh in dedloc's folder builds build/release/bin/dedloc, which "
                      "can; for a machine with an NVIDIA card ./gpu.sh builds build/gpu/bin/dedloc",
                      kind);
}

}  // namespace

bool register_task(TaskKind kind) {
    run::register_sections(kind.name, kind.sections, kind.check);
    if (kind.default_config) run::register_default_task(*kind.default_config);
    std::string name = kind.name;
    all_kinds().emplace(std::move(name), std::move(kind));
    return true;
}

const TaskKind* find_task(std::string_view kind) {
    const auto found = all_kinds().find(kind);
    return found == all_kinds().end() ? nullptr : &found->second;
}

bool writes_text(const run::TaskConfig& config) {
    const TaskKind* kind = find_task(config.kind);
    return kind && kind->writes_text;
}

std::vector<std::string> task_kinds() {
    std::vector<std::string> names;
    for (const auto& [name, kind] : all_kinds()) names.push_back(name);
    return names;
}

Result<std::shared_ptr<const TrainingTask>> make_task(const run::TaskConfig& config,
                                                      const TaskOptions& options) {
    const TaskKind* kind = find_task(config.kind);
    if (config.kind == "own_loop")
        return make_error(
            ErrorKind::bad_input,
            "this run trains a program's own loop, which alone has the model: run "
            "that program with this run file or join string, as in dedloc.host(…) and "
            "dedloc.join(…) of Python; `dedloc watch` shows the run");
    if (!kind)
        return make_error(ErrorKind::bad_input,
                          "task.kind: there is no task '{}'; this build knows {}",
                          config.kind,
                          fmt::join(task_kinds(), ", "));
    if (!kind->make) return not_in_this_build(config.kind);
    return kind->make(config, options);
}

Result<std::vector<MissingFile>> missing_files(const run::TaskConfig& config,
                                               const TaskOptions& options) {
    std::vector<MissingFile> missing;
    const TaskKind* kind = find_task(config.kind);
    if (!kind) return missing;
    for (const FindMissing& find : kind->missing_files) {
        DEDLOC_TRY(auto file, find(config, options));
        if (file) missing.push_back(*std::move(file));
    }
    return missing;
}

Ok keep_file(const run::TaskConfig& config, const MissingFile& missing, ByteView file) {
    const TaskKind* kind = find_task(config.kind);
    if (!kind || !kind->keep_file)
        return make_error(
            ErrorKind::unsupported, "the task {} has no use for a {}", config.kind, missing.what);
    return kind->keep_file(missing, file);
}

}  // namespace dedloc::tasks
