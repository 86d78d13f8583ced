// A table of simulated machines: for `lab dht` and `lab experts`.

#pragma once
#include <memory>
#include <vector>

#include "dedloc/dht/node.h"
#include "dedloc/sim/world.h"

namespace dedloc::lab {

class TableWorld {
  public:
    explicit TableWorld(std::uint64_t seed, Duration latency);
    ~TableWorld();
    TableWorld(const TableWorld&) = delete;
    TableWorld& operator=(const TableWorld&) = delete;

    // Grows to `count` nodes; each joins through one that is there, many at a time.
    void grow(std::size_t count);
    std::size_t add(dht::DhtOptions options = {});  // one that has not joined
    void kill(std::size_t index);

    std::size_t size() const { return nodes_.size(); }
    dht::DhtNode& node(std::size_t index) { return *nodes_[index]; }
    sim::SimNode& machine(std::size_t index) { return *machines_[index]; }
    bool alive(std::size_t index) { return machines_[index]->alive(); }
    // A living node, by chance.
    std::size_t any_alive(Random& random);
    // Runs all of them side by side, at most `at_once` at a time, to the end of the last.
    void run_all(std::vector<Task<void>> tasks, std::size_t at_once = 256);

    sim::World world;

  private:
    security::ToyVerifier verifier_;
    Random random_;
    std::vector<sim::SimNode*> machines_;
    std::vector<std::unique_ptr<dht::DhtNode>> nodes_;
};

}  // namespace dedloc::lab
