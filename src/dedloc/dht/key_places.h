// KeyPlaces: where keys were stored a moment ago, so that who stores a key again soon needs no
// look-up: one call a replica. A node that has come since then and belongs there makes us look
// again.
//
// Bounded: places_max keys, the oldest goes. Cost: logarithmic; newcomer() linear. Thread: one.

#pragma once
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "dedloc/base/time.h"
#include "dedloc/dht/routing_table.h"

namespace dedloc::dht {

inline constexpr std::size_t places_max = 2048;

class KeyPlaces {
  public:
    // Null: not known, or no longer. Valid until the next call that is not const.
    const std::vector<Contact>* find(const DhtId& key, TimePoint now) const {
        const auto found = places_.find(key);
        if (found == places_.end() || now >= found->second.until) return nullptr;
        return &found->second.nodes;
    }
    // `nodes`: those that were asked to hold it, in the order of their distance.
    void remember(const DhtId& key, std::vector<Contact> nodes, TimePoint until) {
        if (!places_.contains(key)) order_.push_back(key);
        places_[key] = {.nodes = std::move(nodes), .until = until};
        while (order_.size() > places_max) {
            places_.erase(order_.front());
            order_.pop_front();
        }
    }
    void forget(const DhtId& key) {
        if (const auto found = places_.find(key); found != places_.end())
            found->second.until = TimePoint();
    }
    void newcomer(const DhtId& id) {
        for (auto& [key, place] : places_)
            if (nearer(key, id, place.nodes.back().id)) place.until = TimePoint();
    }

  private:
    struct Place {
        std::vector<Contact> nodes;
        TimePoint until{};
    };
    std::map<DhtId, Place> places_;
    std::deque<DhtId> order_;
};

}  // namespace dedloc::dht
