#include "dedloc/cli/watcher.h"

#include <filesystem>
#include <stdlib.h>

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/monitor/event_log.h"
#include "dedloc/peer/grid_watch.h"
#include "dedloc/peer/node_opening.h"

namespace dedloc::cli {
namespace {

constexpr Duration status_interval = 250ms;

}  // namespace

struct Watcher::State {
    ~State() {
        node.reset();
        std::error_code ignored;
        if (!directory.empty()) std::filesystem::remove_all(directory, ignored);
    }

    std::string directory;  // a node has one; a watcher needs nothing that is in it
    monitor::EventMailbox events;
    peer::GridWatch grid;
    run::RunFile run;
    std::unique_ptr<collab::Node> node;
    collab::CollaborationService* service = nullptr;  // the node's
};

namespace {

peer::Outcome<std::unique_ptr<collab::Node>> open_as_stranger(Watcher::State& state) {
    std::error_code error;
    std::string pattern =
        (std::filesystem::temp_directory_path(error) / "dedloc-watch-XXXXXX").string();
    if (!::mkdtemp(pattern.data()))
        return peer::Failure{peer::ExitCode::disk, "cannot make a temporary folder " + pattern};
    state.directory = pattern;
    auto opened = collab::Node::open(
        {.directory = pattern, .listen = {}, .announce = {}, .workers_count = 1});
    if (!opened) return peer::failure(opened.error());
    return *std::move(opened);
}

// A code is good on one device, which is who `join` with the same string will be: the token stays
// in that peer's folder.
peer::Outcome<std::unique_ptr<collab::Node>> open_as_volunteer(const Digest& run,
                                                               const std::string& directory) {
    auto opened =
        peer::open_node(run, {.directory = directory, .listen = {"none"}, .workers_count = 1});
    if (!opened) return opened.failure();
    return std::move(opened->node);
}

}  // namespace

peer::Outcome<std::unique_ptr<Watcher>> Watcher::start(const std::string& join_text,
                                                       const std::string& directory,
                                                       double seconds) {
    auto state = std::make_unique<State>();
    const auto join = run::parse_join_string(join_text);
    const bool is_invited = join && !join->authority.is_empty();
    auto opened = is_invited ? open_as_volunteer(join->run, directory) : open_as_stranger(*state);
    if (!opened) return opened.failure();
    state->node = std::move(*opened);
    state->service = &state->node->add<collab::CollaborationService>(*state->node);
    auto invitation = collab::fetch_invitation(*state->node, join_text, from_seconds(seconds));
    if (!invitation) return peer::failure(invitation.error());
    state->run = invitation->run;
    collab::Options options;
    options.run = std::move(invitation->run);
    invitation->hand_over(options);
    options.role = membership::Role::observer;
    options.name = "watcher";
    options.status_interval = status_interval;
    options.join_patience = from_seconds(seconds);
    const auto begun = state->service->begin(std::move(options), &state->events);
    if (!begun) return peer::failure(begun.error());
    state->grid.start(*state->node, state->run);
    return std::unique_ptr<Watcher>(new Watcher(std::move(state)));
}

std::optional<experts::GridSeen> Watcher::grid() const { return state_->grid.seen(); }

Watcher::Watcher(std::unique_ptr<State> state) : state_(std::move(state)) {}

Watcher::~Watcher() { state_->service->leave(peer::goodbye_max); }

const run::RunFile& Watcher::run() const { return state_->run; }
const collab::Node& Watcher::node() const { return *state_->node; }

std::vector<membership::Status> Watcher::statuses() const {
    return state_->node->run_on_network_thread([this] {
        auto statuses = state_->service->collaboration().peers();
        std::erase_if(statuses, [](const membership::Status& status) {
            return status.role == membership::Role::observer;
        });
        return statuses;
    });
}

std::vector<events::Event> Watcher::take_events() { return state_->events.take(); }

double Watcher::wall_now() const { return state_->node->clock().wall_now(); }

}  // namespace dedloc::cli
