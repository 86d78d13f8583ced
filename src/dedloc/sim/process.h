// One process on a simulated machine, from its start to its end: the clock it reads, its view of
// the disk, its workers, its host. Dead processes are kept until the world ends, because what the
// user built on them is destroyed later.

#pragma once
#include <memory>
#include <vector>

#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/workers.h"
#include "dedloc/sim/sim_disk.h"
#include "dedloc/sim/world.h"

namespace dedloc::sim {

class SimHost;
class SimNetwork;

class SimClock final : public runtime::Clock {
  public:
    SimClock(World& world, SimNode& node, Process& process)
        : world_(world), node_(node), process_(process) {}

    TimePoint now() const override;
    WallSeconds wall_now() const override;
    runtime::TimerId call_at(TimePoint deadline, std::function<void()> action) override;
    void cancel_timer(runtime::TimerId timer) override { world_.cancel(timer); }

  private:
    World& world_;
    SimNode& node_;
    Process& process_;
};

// Runs the work at once and resumes the caller as an event, after the stated virtual time.
class SimWorkers final : public runtime::Workers {
  public:
    SimWorkers(World& world, Process& process) : world_(world), process_(process) {}

    Task<void> run_erased(std::function<void()> work) override;
    std::size_t threads_count() const override { return 1; }

  private:
    World& world_;
    Process& process_;
};

class Process {
  public:
    Process(World& world, SimNode& node, std::uint32_t incarnation);
    ~Process();

    // The process's events wait: it is stopped, or dead and not yet being torn down.
    bool held() const { return frozen || (!alive && !teardown); }

    World& world;
    SimNode& node;
    bool alive = true;
    bool frozen = false;
    bool teardown = false;
    std::vector<EventId> held_events;
    Random random;
    SimClock clock;
    SimDisk disk;
    SimWorkers workers;
    std::unique_ptr<SimHost> host;
    std::unique_ptr<SimNetwork> network;
};

}  // namespace dedloc::sim
