#include "dedloc/peer/visitor.h"

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/peer/fits_memory.h"
#include "dedloc/peer/memory.h"
#include "dedloc/peer/node_opening.h"
#include "dedloc/peer/run_files.h"
#include "dedloc/peer/say.h"
#include "dedloc/peer/visiting_node.h"
#include "dedloc/train/find_checkpoint.h"

namespace dedloc::peer {
namespace {

constexpr Duration visit_timeout = 600s;  // a published state of 0.8 GB on a slow line
constexpr Duration visitors_file_timeout = 120s;

Ok fetch_files(const collab::Node& node,
               const collab::Invitation& invitation,
               const tasks::TaskOptions& options) {
    const run::TaskConfig& task = invitation.run.task;
    DEDLOC_TRY(const auto missing, tasks::missing_files(task, options));
    for (const tasks::MissingFile& wanted : missing) {
        DEDLOC_TRY(const Bytes file,
                   collab::fetch_attachment(
                       node, invitation, wanted.hash, wanted.bytes_max, visitors_file_timeout));
        DEDLOC_TRY_VOID(tasks::keep_file(task, wanted, file));
    }
    return {};
}

// The task without its data, where this machine has the memory for its model.
Result<std::shared_ptr<const tasks::TrainingTask>> fitting_task(const run::TaskConfig& config,
                                                                const tasks::TaskOptions& options) {
    DEDLOC_TRY(auto task, tasks::make_task(config, options));
    DEDLOC_TRY_VOID(check_fits(*task, MemoryUse::evaluation, memory_available()));
    return task;
}

}  // namespace

Outcome<Visited> visit_run(const std::string& join_text,
                           const std::string& directory,
                           const tasks::TaskOptions& options,
                           const std::function<void(const std::string&)>& tell,
                           const std::function<bool()>& goes_on) {
    auto visiting = VisitingNode::open(join_text, directory);
    if (!visiting) return visiting.failure();
    collab::Node& node = (*visiting)->node();
    auto& service = node.add<collab::CollaborationService>(node);
    auto invitation = (*visiting)->reach(reach_timeout);
    if (!invitation) return failure(invitation.error());
    if (const Ok fetched = fetch_files(node, *invitation, options); !fetched)
        return failure(fetched.error());
    auto task = fitting_task(invitation->run.task, options);
    if (!task) return failure(task.error());
    Visited visited{.run = invitation->run, .task = *std::move(task), .state = nullptr};
    const auto learner = visited.task->learner(node.id());
    if (!learner) return failure(learner.error());
    collab::CollaborationOptions joining;
    joining.run = visited.run;
    invitation->hand_over(joining);
    joining.layout = (*learner)->layout();
    joining.name = "visitor";
    joining.join_timeout = visit_timeout;
    tell(fmt::format("taking the newest state of {} …", visited.run.name));
    const auto begun = service.begin(std::move(joining), nullptr, goes_on);
    if (!begun) return failure(begun.error());
    visited.state = service.collaboration().state();
    service.leave(goodbye_max);
    return visited;
}

Outcome<Visited> visit_checkpoint(const std::string& path, const tasks::TaskOptions& options) {
    const auto found = train::find_checkpoint(path);
    if (!found) return failure(found.error());
    for (const std::string& skipped : found->skipped) say(stderr, "dedloc: {}\n", skipped);
    auto run = run::parse_run_file(found->checkpoint.run_file, found->path + "/run.toml");
    if (!run) return failure(run.error());
    if (const Ok restored = restore_run_files(found->path, run->task, options); !restored)
        return failure(restored.error());
    auto task = fitting_task(run->task, options);
    if (!task) return failure(task.error());
    return Visited{.run = *std::move(run),
                   .task = *std::move(task),
                   .state = found->checkpoint.state->snapshot};
}

}  // namespace dedloc::peer
