#include "dedloc/cli/watcher.h"

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/monitor/event_log.h"
#include "dedloc/peer/grid_watch.h"
#include "dedloc/peer/node_opening.h"
#include "dedloc/peer/visiting_node.h"

namespace dedloc::cli {
namespace {

constexpr Duration status_interval = 250ms;

}  // namespace

struct Watcher::State {
    monitor::EventMailbox events;
    peer::GridWatch grid;
    run::RunFile run;
    std::unique_ptr<peer::VisitingNode> visiting;
    collab::Node* node = nullptr;                     // its
    collab::CollaborationService* service = nullptr;  // the node's
};

peer::Outcome<std::unique_ptr<Watcher>> Watcher::start(const std::string& join_text,
                                                       const std::string& directory,
                                                       double seconds) {
    auto state = std::make_unique<State>();
    auto visiting = peer::VisitingNode::open(join_text, directory);
    if (!visiting) return visiting.failure();
    state->visiting = std::move(*visiting);
    state->node = &state->visiting->node();
    state->service = &state->node->add<collab::CollaborationService>(*state->node);
    auto invitation = state->visiting->reach(from_seconds(seconds));
    if (!invitation) return peer::failure(invitation.error());
    state->run = invitation->run;
    collab::CollaborationOptions options;
    options.run = std::move(invitation->run);
    invitation->hand_over(options);
    options.role = membership::Role::observer;
    options.name = "watcher";
    options.status_interval = status_interval;
    options.join_timeout = from_seconds(seconds);
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
