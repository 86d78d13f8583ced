#include "dedloc/cli/published_weights.h"

#include "dedloc/replica/model_state.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::cli {

Result<peer::WarmSource> published_weights(const run::RunFile& run, tasks::TaskOptions options) {
    const std::string folder = options.weights_directory;
    options.device = "cpu";
    options.unprepared = true;
    DEDLOC_TRY(const auto task, tasks::make_task(run.task, options));
    DEDLOC_TRY(std::vector<float> parameters, task->read_weights(folder));
    std::vector<state::Section> sections;
    sections.push_back({std::string(replica::parameters_section), std::move(parameters)});
    sections.push_back({std::string(replica::buffers_section), std::vector<float>()});
    state::SnapshotInfo info;
    info.run = run::run_hash(run);
    info.branch = info.run;
    peer::WarmSource source{.path = folder, .weights_alone = true};
    DEDLOC_TRY(source.state, state::Snapshot::make(std::move(info), std::move(sections)));
    return source;
}

}  // namespace dedloc::cli
