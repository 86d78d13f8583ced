#include "dedloc/sim/process.h"

#include "dedloc/runtime/suspend.h"
#include "dedloc/sim/sim_host.h"
#include "dedloc/sim/sim_network.h"

namespace dedloc::sim {

namespace {
// Seconds since 1970 at the world's time 0: any day would do, but always the same.
constexpr double wall_epoch = 1.7e9;
}  // namespace

TimePoint SimClock::now() const { return node_.local_time(world_.now()); }

WallSeconds SimClock::wall_now() const {
    const Duration since = node_.local_time(world_.now()) - TimePoint{node_.options().clock_offset};
    return wall_epoch + to_seconds(since) + to_seconds(node_.options().wall_skew);
}

runtime::TimerId SimClock::call_at(TimePoint deadline, std::function<void()> action) {
    if (deadline == TimePoint::never()) return 0;
    const TimePoint when = std::max(node_.world_time(deadline), world_.now());
    return world_.schedule(when, &process_, std::move(action));
}

Task<void> SimWorkers::run_erased(std::function<void()> work) {
    work();
    work = nullptr;
    std::shared_ptr<runtime::Parked> parked;
    auto start = [&parked](std::shared_ptr<runtime::Parked> given) { parked = std::move(given); };
    const TimePoint when = world_.now() + world_.options().worker_cost;
    auto resume = [&parked] { parked->resume(); };
    const EventId event = world_.schedule(when, &process_, resume);
    struct Guard {
        World& world;
        EventId event;
        ~Guard() { world.cancel(event); }
    };
    const Guard guard{world_, event};
    co_await runtime::park(start);
}

Process::Process(World& given_world, SimNode& given_node, std::uint32_t incarnation)
    : world(given_world),
      node(given_node),
      random(given_world.random(fmt::format("node {} {}", given_node.index(), incarnation))),
      clock(given_world, given_node, *this),
      disk(given_node.disk_content_, random.fork("disk"), [this] { node.kill(); }),
      workers(given_world, *this),
      host(std::make_unique<SimHost>(*this)),
      network(std::make_unique<SimNetwork>(*this)) {}

Process::~Process() = default;

}  // namespace dedloc::sim
