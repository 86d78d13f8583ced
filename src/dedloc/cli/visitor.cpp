#include "dedloc/cli/visitor.h"

#include <filesystem>
#include <stdlib.h>

#include "dedloc/cli/fits_memory.h"
#include "dedloc/cli/memory.h"
#include "dedloc/cli/node_opening.h"
#include "dedloc/collab/collaboration_service.h"

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

std::optional<Failure> open(VisitorsNode& visitor) {
    std::error_code error;
    std::string pattern =
        (std::filesystem::temp_directory_path(error) / "dedloc-visit-XXXXXX").string();
    if (!::mkdtemp(pattern.data()))
        return Failure{ExitCode::disk, "cannot make a temporary folder " + pattern};
    visitor.directory = pattern;
    auto opened = collab::Node::open(
        {.directory = pattern, .listen = {}, .announce = {}, .workers_count = 1});
    if (!opened) return failure(opened.error());
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

Outcome<Visited> visit_run(const std::string& join_text,
                           const tasks::TaskOptions& options,
                           const std::function<void(const std::string&)>& say) {
    VisitorsNode visitor;
    if (auto failed = open(visitor)) return *std::move(failed);
    auto& service = visitor.node->add<collab::CollaborationService>(*visitor.node);
    auto invitation = collab::fetch_invitation(*visitor.node, join_text, reach_patience);
    if (!invitation) return failure(invitation.error());
    if (const Ok fetched = fetch_file(*visitor.node, *invitation, options); !fetched)
        return failure(fetched.error());
    Visited visited{.run = invitation->run, .task = nullptr, .state = nullptr};
    auto task = tasks::make_task(visited.run.task, options);
    if (!task) return failure(task.error());
    visited.task = *std::move(task);
    if (const Ok fits = check_fits(*visited.task, MemoryUse::evaluation, memory_available()); !fits)
        return failure(fits.error());
    const auto learner = visited.task->learner(visitor.node->id());
    if (!learner) return failure(learner.error());
    collab::Options joining;
    joining.run = visited.run;
    joining.secret = std::move(invitation->secret);
    joining.bootstrap = std::move(invitation->bootstrap);
    joining.layout = (*learner)->layout();
    joining.name = "visitor";
    joining.join_patience = visit_patience;
    say(fmt::format("taking the newest state of {} …", visited.run.name));
    const auto begun = service.begin(std::move(joining), nullptr);
    if (!begun) return failure(begun.error());
    visited.state = service.collaboration().state();
    service.leave(goodbye_max);
    return visited;
}

}  // namespace dedloc::cli
