// RoutingTable: whom a node knows, so that any id is a few hops away.
//
// As hivemind's: one bucket over the whole space, split at its midpoint when it is full and holds
// our own id or its depth is not a multiple of depth_modulo. In a full bucket that may not split, a
// newcomer waits among the replacements and the caller is told whom to ping: the node seen least
// recently; if that one fails, remove() puts the newest replacement in its place.
//
// Differences from hivemind:
//  - One entry a PeerId: a peer that shows up with another id loses the old one.
//  - Ids bound to their PeerId (sha1 of it: all dedloc peers) drive out unbound (foreign, freely
//    chosen) ones when a bucket is full, or are the only ones taken if `bound_only`: a node cannot
//    choose its place near a key without grinding keys.
//  - The midpoint itself belongs to the right half.
//
// Invariants: buckets are disjoint and cover the space; each holds at most bucket_size nodes and
// bucket_size replacements; our own id is in none.
// Source: Kademlia (Maymounkov, Mazières 2002) §2.4, §4.2; docs/spec/dht.md.
// Cost: add O(log buckets + bucket_size); nearest O(gathered · log gathered). Thread: one.

#pragma once
#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dedloc/dht/dht_id.h"

namespace dedloc::dht {

struct Contact {
    DhtId id;
    PeerId peer;

    bool bound() const { return id == DhtId::of_peer(peer); }
    friend bool operator==(const Contact&, const Contact&) = default;
};

struct RoutingOptions {
    std::size_t bucket_size = 20;  // "k" of the paper
    int depth_modulo = 5;          // "b" of the paper
    bool bound_only = false;
    std::size_t nodes_max = 20'000;  // buckets no longer split beyond
};

class RoutingTable {
  public:
    RoutingTable(DhtId self, RoutingOptions options);

    struct Added {
        bool is_new = false;          // the id was not in the table before
        std::optional<Contact> ping;  // seen least recently in the full bucket: is it alive?
    };
    // Seen alive: moves to the bucket's end, or joins, or waits. Ourselves: ignored.
    Added add(const Contact& contact);
    // Failed to answer. Its replacement, if any, takes its place.
    void remove(const DhtId& id);

    bool contains(const DhtId& id) const;
    std::optional<PeerId> peer_of(const DhtId& id) const;
    std::optional<DhtId> id_of(const PeerId& peer) const;
    // Up to `count` nodes, nearest to the target first, `exclude` left out.
    std::vector<Contact> nearest(const DhtId& target,
                                 std::size_t count,
                                 const std::optional<DhtId>& exclude = std::nullopt) const;
    std::vector<Contact> all() const;

    const DhtId& self() const { return self_; }
    std::size_t size() const { return id_of_peer_.size(); }
    std::size_t buckets_count() const { return buckets_.size(); }
    void check_invariants() const;

  private:
    struct Bucket {
        DhtId lower;  // first `depth` bits matter, the rest are 0
        int depth = 0;
        std::vector<Contact> nodes;         // seen least recently first
        std::vector<Contact> replacements;  // likewise
        std::optional<DhtId> pinged;        // being asked whether it lives
    };
    std::size_t bucket_index(const DhtId& id) const;
    bool may_split(const Bucket& bucket) const;
    void split(std::size_t index);
    std::optional<Contact> keep_for_later(Bucket& bucket, const Contact& contact);

    DhtId self_;
    RoutingOptions options_;
    std::vector<Bucket> buckets_;                   // by lower
    std::unordered_map<PeerId, DhtId> id_of_peer_;  // of the nodes, without replacements
};

}  // namespace dedloc::dht
