#include "tests/sim/table_world.h"

#include <fmt/format.h>

#include "dedloc/runtime/together.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t slow_from = 500;  // nodes; their joins take seconds

sim::WorldOptions with_latency(Duration latency) {
    sim::WorldOptions options;
    options.link.latency = latency;
    return options;
}

struct Queue {
    std::vector<Task<void>> tasks;
    std::size_t next = 0;
};

Task<void> work_off(Queue& queue) {
    while (queue.next < queue.tasks.size()) {
        Task<void> task = std::move(queue.tasks[queue.next++]);
        co_await std::move(task);
    }
}

Task<void> work_all_off(Queue& queue, std::size_t at_once) {
    std::vector<Task<void>> workers;
    for (std::size_t i = 0; i < at_once; ++i) workers.push_back(work_off(queue));
    co_await runtime::all_of(std::move(workers));
}

Task<void> join(TableWorld& table, std::size_t index, std::size_t through) {
    std::vector<PeerId> peers{table.machine(through).id()};
    const TimePoint deadline = table.machine(index).clock().now() + 60s;
    (void)co_await table.node(index).bootstrap(std::move(peers), deadline);
}

Task<void> stop(dht::DhtNode& node) { co_await node.stop(); }

}  // namespace

TableWorld::TableWorld(std::uint64_t seed, Duration latency)
    : world(seed, with_latency(latency)), random_(world.random("table")) {}

TableWorld::~TableWorld() {
    std::vector<Task<void>> stops;
    for (auto& node : nodes_) stops.push_back(stop(*node));
    run_all(std::move(stops));
}

std::size_t TableWorld::add(dht::DhtOptions options) {
    machines_.push_back(&world.add_node());
    nodes_.push_back(
        std::make_unique<dht::DhtNode>(machines_.back()->host(), verifier_, std::move(options)));
    nodes_.back()->start();
    return nodes_.size() - 1;
}

void TableWorld::grow(std::size_t count) {
    if (nodes_.empty()) add();
    while (nodes_.size() < count) {
        // Not more at a time than are there: each finds a table that knows itself.
        const std::size_t there = nodes_.size();
        const std::size_t wave = std::min(there, count - there);
        std::vector<Task<void>> joins;
        for (std::size_t i = 0; i < wave; ++i)
            joins.push_back(join(*this, add(), random_.below(there)));
        run_all(std::move(joins));
        if (there >= slow_from)
            fmt::print(stderr, "{} of {} nodes have joined\n", nodes_.size(), count);
    }
}

void TableWorld::kill(std::size_t index) { machines_[index]->kill(); }

std::size_t TableWorld::any_alive(Random& random) {
    for (;;) {
        const std::size_t index = random.below(nodes_.size());
        if (alive(index)) return index;
    }
}

void TableWorld::run_all(std::vector<Task<void>> tasks, std::size_t at_once) {
    if (tasks.empty()) return;
    Queue queue{.tasks = std::move(tasks)};
    world.run_task(work_all_off(queue, std::min(at_once, queue.tasks.size())),
                   std::chrono::hours(24));
}

}  // namespace dedloc::lab
