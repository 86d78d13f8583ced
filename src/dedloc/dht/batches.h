// Calls of one node that go to the same peer within one turn of the loop travel together: several
// keys a find, records of several keys a store. A batch is a task of the node, so that a look-up
// that ends early takes nothing from the others.
//
// Not for other rooms. Thread: the network thread.

#pragma once
#include <map>
#include <memory>
#include <vector>

#include "dedloc/dht/core.h"

namespace dedloc::dht {

// hivemind's chunk: an answer holds 20 neighbours a key, so more would make it large.
inline constexpr std::size_t find_keys_a_call = 16;
inline constexpr std::size_t store_items_a_batch = 1024;

class FindBatches {
  public:
    explicit FindBatches(DhtNode::Core& core) : core_(core) {}

    // The answer's part for `key`: one result.
    Task<Result<wire::FindResponse>> find(PeerId peer, DhtId key, TimePoint deadline);
    std::uint64_t calls() const { return calls_; }
    std::uint64_t keys() const { return keys_; }

  private:
    struct Batch {
        explicit Batch(runtime::Executor executor) : done(executor) {}
        std::vector<DhtId> keys;
        std::optional<Result<wire::FindResponse>> result;
        runtime::Event done;
    };
    Task<void> send(PeerId peer, std::shared_ptr<Batch> batch);
    Task<Result<wire::FindResponse>> exchange(const PeerId& peer, const Batch& batch);

    DhtNode::Core& core_;
    std::map<PeerId, std::shared_ptr<Batch>> open_;
    std::uint64_t calls_ = 0;
    std::uint64_t keys_ = 0;
};

class StoreBatches {
  public:
    explicit StoreBatches(DhtNode::Core& core) : core_(core) {}

    // One flag an item: taken or not.
    Task<Result<std::vector<bool>>> store(PeerId peer,
                                          std::vector<DhtItem> items,
                                          bool in_cache,
                                          TimePoint deadline);

  private:
    struct Batch {
        explicit Batch(runtime::Executor executor) : done(executor) {}
        std::vector<DhtItem> items;
        std::optional<Result<std::vector<bool>>> result;
        runtime::Event done;
    };
    Task<void> send(std::pair<PeerId, bool> where, std::shared_ptr<Batch> batch);

    DhtNode::Core& core_;
    std::map<std::pair<PeerId, bool>, std::shared_ptr<Batch>> open_;
};

}  // namespace dedloc::dht
