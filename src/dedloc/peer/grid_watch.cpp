#include "dedloc/peer/grid_watch.h"

#include "dedloc/tasks/experts_section.h"

namespace dedloc::peer {

struct GridWatch::Slot {
    std::optional<experts::GridSeen> seen;
};

namespace {

constexpr Duration poll_interval = 3s;         // of a small grid
constexpr Duration interval_of_expert = 20ms;  // what a look costs its table
constexpr Duration grid_answer_max = 8s;

Task<void> watch_grid(const collab::Node& node,
                      experts::ExpertGrid grid,
                      std::shared_ptr<GridWatch::Slot> slot) {
    experts::Directory directory(*node.dht(), node.host().executor(), node.clock());
    const Duration interval =
        std::max(poll_interval, interval_of_expert * static_cast<int>(grid.experts_count()));
    for (;;) {
        const TimePoint deadline = node.clock().now() + grid_answer_max;
        experts::ExpertGrid asked = grid;
        slot->seen = co_await experts::survey_grid(
            node.host(), *node.dht(), directory, std::move(asked), deadline);
        co_await node.clock().sleep_for(interval);
    }
}

}  // namespace

void GridWatch::start(const collab::Node& node, const run::RunFile& run) {
    if (run.task.section(tasks::experts_section_name) == nullptr) return;
    auto grid = tasks::expert_grid(run.task);
    if (!grid) return;
    node_ = &node;
    slot_ = std::make_shared<Slot>();
    node.join_table();
    node.spawn()("watch the experts", watch_grid(node, *std::move(grid), slot_));
}

std::optional<experts::GridSeen> GridWatch::seen() const {
    if (!slot_) return std::nullopt;
    return node_->run_on_network_thread([this] { return slot_->seen; });
}

std::map<PeerId, std::string> names_of(const std::vector<membership::Status>& statuses) {
    std::map<PeerId, std::string> names;
    for (const membership::Status& status : statuses) names[status.peer] = status.name;
    return names;
}

}  // namespace dedloc::peer
