#include "dedloc/cli/visitor.h"

#include <filesystem>
#include <stdlib.h>

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/peer/fits_memory.h"
#include "dedloc/peer/memory.h"
#include "dedloc/peer/node_opening.h"

namespace dedloc::cli {
namespace {

constexpr Duration visit_patience = 600s;  // a published state of 0.8 GB on a slow line
constexpr Duration visitors_file_patience = 120s;

// Its node has a folder, and needs nothing that is in it.
struct VisitorsNode {
    ~VisitorsNode() {
        node.reset();
        std::error_code ignored;
        if (!directory.empty()) std::filesystem::remove_all(directory, ignored);
    }
    std::string directory;
    std::unique_ptr<collab::Node> node;
};

std::optional<peer::Failure> open(VisitorsNode& visitor) {
    std::error_code error;
    std::string pattern =
        (std::filesystem::temp_directory_path(error) / "dedloc-visit-XXXXXX").string();
    if (!::mkdtemp(pattern.data()))
        return peer::Failure{peer::ExitCode::disk, "cannot make a temporary folder " + pattern};
    visitor.directory = pattern;
    auto opened = collab::Node::open(
        {.directory = pattern, .listen = {}, .announce = {}, .workers_count = 1});
    if (!opened) return peer::failure(opened.error());
    visitor.node = *std::move(opened);
    return std::nullopt;
}

Ok fetch_file(const collab::Node& node,
              const collab::Invitation& invitation,
              const tasks::TaskOptions& options) {
    const run::TaskConfig& task = invitation.run.task;
    DEDLOC_TRY(const auto missing, tasks::missing_file(task, options));
    if (!missing) return {};
    DEDLOC_TRY(const Bytes file,
               collab::fetch_attachment(
                   node, invitation, missing->hash, missing->bytes_max, visitors_file_patience));
    return tasks::keep_file(task, *missing, file);
}

}  // namespace

peer::Outcome<Visited> visit_run(const std::string& join_text,
                                 const tasks::TaskOptions& options,
                                 const std::function<void(const std::string&)>& say) {
    VisitorsNode visitor;
    if (auto failed = open(visitor)) return *std::move(failed);
    auto& service = visitor.node->add<collab::CollaborationService>(*visitor.node);
    auto invitation = collab::fetch_invitation(*visitor.node, join_text, peer::reach_patience);
    if (!invitation) return peer::failure(invitation.error());
    if (const Ok fetched = fetch_file(*visitor.node, *invitation, options); !fetched)
        return peer::failure(fetched.error());
    Visited visited{.run = invitation->run, .task = nullptr, .state = nullptr};
    auto task = tasks::make_task(visited.run.task, options);
    if (!task) return peer::failure(task.error());
    visited.task = *std::move(task);
    if (const Ok fits =
            peer::check_fits(*visited.task, peer::MemoryUse::evaluation, peer::memory_available());
        !fits)
        return peer::failure(fits.error());
    const auto learner = visited.task->learner(visitor.node->id());
    if (!learner) return peer::failure(learner.error());
    collab::Options joining;
    joining.run = visited.run;
    joining.secret = std::move(invitation->secret);
    joining.bootstrap = std::move(invitation->bootstrap);
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
