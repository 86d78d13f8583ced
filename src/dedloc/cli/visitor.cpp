#include "dedloc/cli/visitor.h"

#include "dedloc/cli/visiting_node.h"
#include "dedloc/collab/collaboration_service.h"
#include "dedloc/peer/fits_memory.h"
#include "dedloc/peer/memory.h"
#include "dedloc/peer/node_opening.h"

namespace dedloc::cli {
namespace {

constexpr Duration visit_patience = 600s;  // a published state of 0.8 GB on a slow line
constexpr Duration visitors_file_patience = 120s;

Ok fetch_files(const collab::Node& node,
               const collab::Invitation& invitation,
               const tasks::TaskOptions& options) {
    const run::TaskConfig& task = invitation.run.task;
    DEDLOC_TRY(const auto missing, tasks::missing_files(task, options));
    for (const tasks::MissingFile& wanted : missing) {
        DEDLOC_TRY(const Bytes file,
                   collab::fetch_attachment(
                       node, invitation, wanted.hash, wanted.bytes_max, visitors_file_patience));
        DEDLOC_TRY_VOID(tasks::keep_file(task, wanted, file));
    }
    return {};
}

}  // namespace

peer::Outcome<Visited> visit_run(const std::string& join_text,
                                 const std::string& directory,
                                 const tasks::TaskOptions& options,
                                 const std::function<void(const std::string&)>& say) {
    auto visiting = VisitingNode::open(join_text, directory);
    if (!visiting) return visiting.failure();
    collab::Node& node = (*visiting)->node();
    auto& service = node.add<collab::CollaborationService>(node);
    auto invitation = (*visiting)->reach(peer::reach_patience);
    if (!invitation) return peer::failure(invitation.error());
    if (const Ok fetched = fetch_files(node, *invitation, options); !fetched)
        return peer::failure(fetched.error());
    Visited visited{.run = invitation->run, .task = nullptr, .state = nullptr};
    auto task = tasks::make_task(visited.run.task, options);
    if (!task) return peer::failure(task.error());
    visited.task = *std::move(task);
    if (const Ok fits =
            peer::check_fits(*visited.task, peer::MemoryUse::evaluation, peer::memory_available());
        !fits)
        return peer::failure(fits.error());
    const auto learner = visited.task->learner(node.id());
    if (!learner) return peer::failure(learner.error());
    collab::Options joining;
    joining.run = visited.run;
    invitation->hand_over(joining);
    joining.layout = (*learner)->layout();
    joining.name = "visitor";
    joining.join_patience = visit_patience;
    say(fmt::format("taking the newest state of {} …", visited.run.name));
    const auto begun = service.begin(std::move(joining), nullptr);
    if (!begun) return peer::failure(begun.error());
    visited.state = service.collaboration().state();
    service.leave(peer::goodbye_max);
    return visited;
}

}  // namespace dedloc::cli
