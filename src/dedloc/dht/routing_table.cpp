#include "dedloc/dht/routing_table.h"

#include <algorithm>

namespace dedloc::dht {

namespace {

auto find_id(std::vector<Contact>& contacts, const DhtId& id) {
    return std::find_if(
        contacts.begin(), contacts.end(), [&](const Contact& contact) { return contact.id == id; });
}

auto find_id(const std::vector<Contact>& contacts, const DhtId& id) {
    return std::find_if(
        contacts.begin(), contacts.end(), [&](const Contact& contact) { return contact.id == id; });
}

DhtId with_bit(DhtId id, int bit) {
    id.bytes[static_cast<std::size_t>(bit) / 8] |= static_cast<std::uint8_t>(0x80 >> (bit % 8));
    return id;
}

}  // namespace

RoutingTable::RoutingTable(DhtId self, RoutingOptions options) : self_(self), options_(options) {
    DEDLOC_CHECK(options_.bucket_size > 0 && options_.depth_modulo > 0);
    buckets_.emplace_back();
}

std::size_t RoutingTable::bucket_index(const DhtId& id) const {
    const auto after = std::upper_bound(
        buckets_.begin(), buckets_.end(), id, [](const DhtId& wanted, const Bucket& bucket) {
            return wanted < bucket.lower;
        });
    return static_cast<std::size_t>(after - buckets_.begin()) - 1;
}

RoutingTable::Added RoutingTable::add(const Contact& contact) {
    if (contact.id == self_ || contact.peer.is_empty()) return {};
    if (options_.bound_only && !contact.bound()) return {};
    // Repeated, as a replacement of the same peer may move up.
    for (auto known = id_of(contact.peer); known && *known != contact.id;
         known = id_of(contact.peer))
        remove(*known);
    while (true) {
        const std::size_t index = bucket_index(contact.id);
        Bucket& bucket = buckets_[index];
        if (const auto found = find_id(bucket.nodes, contact.id); found != bucket.nodes.end()) {
            // Another peer under a known id: whose hash it is has it, else the first one keeps it
            // until it fails.
            if (found->peer != contact.peer && !contact.bound())
                return {.is_new = false, .ping = *found};
            if (found->peer != contact.peer) {
                id_of_peer_.erase(found->peer);
                id_of_peer_[contact.peer] = contact.id;
                *found = contact;
            }
            std::rotate(found, found + 1, bucket.nodes.end());
            if (bucket.pinged == contact.id) bucket.pinged.reset();
            return {};
        }
        if (bucket.nodes.size() < options_.bucket_size) {
            if (const auto waiting = find_id(bucket.replacements, contact.id);
                waiting != bucket.replacements.end())
                bucket.replacements.erase(waiting);
            bucket.nodes.push_back(contact);
            id_of_peer_[contact.peer] = contact.id;
            return {.is_new = true, .ping = std::nullopt};
        }
        if (!may_split(bucket)) {
            const std::size_t before = id_of_peer_.size();
            std::optional<Contact> ping = keep_for_later(bucket, contact);
            const bool joined = contains(contact.id);
            DEDLOC_CHECK(id_of_peer_.size() == before);
            return {.is_new = joined, .ping = std::move(ping)};
        }
        split(index);
    }
}

bool RoutingTable::may_split(const Bucket& bucket) const {
    if (bucket.depth >= dht_id_bits - 1 || size() >= options_.nodes_max) return false;
    return common_prefix_bits(bucket.lower, self_) >= bucket.depth ||
           bucket.depth % options_.depth_modulo != 0;
}

void RoutingTable::split(std::size_t index) {
    Bucket left = std::move(buckets_[index]);
    const int bit = left.depth;
    left.depth += 1;
    Bucket right;
    right.lower = with_bit(left.lower, bit);
    right.depth = left.depth;
    const auto move_right = [bit](std::vector<Contact>& from, std::vector<Contact>& to) {
        const auto middle =
            std::stable_partition(from.begin(), from.end(), [bit](const Contact& contact) {
                return !contact.id.bit(bit);
            });
        to.assign(middle, from.end());
        from.erase(middle, from.end());
    };
    move_right(left.nodes, right.nodes);
    move_right(left.replacements, right.replacements);
    if (left.pinged && left.pinged->bit(bit)) std::swap(left.pinged, right.pinged);
    // A half that has room now takes in who was waiting, newest first.
    for (Bucket* half : {&left, &right}) {
        while (half->nodes.size() < options_.bucket_size && !half->replacements.empty()) {
            const Contact contact = half->replacements.back();
            half->replacements.pop_back();
            if (!id_of_peer_.emplace(contact.peer, contact.id).second) continue;
            half->nodes.push_back(contact);
        }
    }
    buckets_[index] = std::move(left);
    buckets_.insert(buckets_.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(right));
}

std::optional<Contact> RoutingTable::keep_for_later(Bucket& bucket, const Contact& newcomer) {
    Contact waiting = newcomer;
    if (newcomer.bound()) {
        const auto unbound = std::find_if(bucket.nodes.begin(),
                                          bucket.nodes.end(),
                                          [](const Contact& node) { return !node.bound(); });
        if (unbound != bucket.nodes.end()) {
            waiting = *unbound;
            id_of_peer_.erase(unbound->peer);
            bucket.nodes.erase(unbound);
            bucket.nodes.push_back(newcomer);
            id_of_peer_[newcomer.peer] = newcomer.id;
            std::erase_if(bucket.replacements,
                          [&](const Contact& other) { return other.id == newcomer.id; });
        }
    }
    std::erase_if(bucket.replacements, [&](const Contact& other) {
        return other.id == waiting.id || other.peer == waiting.peer;
    });
    if (bucket.replacements.size() >= options_.bucket_size)
        bucket.replacements.erase(bucket.replacements.begin());
    bucket.replacements.push_back(waiting);
    if (bucket.pinged) return std::nullopt;
    bucket.pinged = bucket.nodes.front().id;
    return bucket.nodes.front();
}

void RoutingTable::remove(const DhtId& id) {
    Bucket& bucket = buckets_[bucket_index(id)];
    if (bucket.pinged == id) bucket.pinged.reset();
    if (const auto waiting = find_id(bucket.replacements, id);
        waiting != bucket.replacements.end()) {
        bucket.replacements.erase(waiting);
        return;
    }
    const auto found = find_id(bucket.nodes, id);
    if (found == bucket.nodes.end()) return;
    id_of_peer_.erase(found->peer);
    bucket.nodes.erase(found);
    while (!bucket.replacements.empty()) {
        const Contact contact = bucket.replacements.back();
        bucket.replacements.pop_back();
        // A peer that meanwhile sits elsewhere under another id stays there.
        if (!id_of_peer_.emplace(contact.peer, contact.id).second) continue;
        bucket.nodes.push_back(contact);
        break;
    }
}

bool RoutingTable::contains(const DhtId& id) const { return peer_of(id).has_value(); }

std::optional<PeerId> RoutingTable::peer_of(const DhtId& id) const {
    const Bucket& bucket = buckets_[bucket_index(id)];
    const auto found = find_id(bucket.nodes, id);
    if (found == bucket.nodes.end()) return std::nullopt;
    return found->peer;
}

std::optional<DhtId> RoutingTable::id_of(const PeerId& peer) const {
    const auto found = id_of_peer_.find(peer);
    if (found == id_of_peer_.end()) return std::nullopt;
    return found->second;
}

std::vector<Contact> RoutingTable::nearest(const DhtId& target,
                                           std::size_t count,
                                           const std::optional<DhtId>& exclude) const {
    // All nodes of the smallest subtree around the target that holds enough of them: any node
    // outside differs in an earlier bit, so it is farther than every node inside.
    std::size_t begin = bucket_index(target);
    std::size_t end = begin + 1;
    int depth = buckets_[begin].depth;
    std::vector<Contact> found;
    const auto gather = [&](std::size_t index) {
        for (const Contact& contact : buckets_[index].nodes)
            if (contact.id != exclude) found.push_back(contact);
    };
    gather(begin);
    while (found.size() < count && depth > 0) {
        --depth;
        const auto inside = [&](std::size_t index) {
            return common_prefix_bits(buckets_[index].lower, target) >= depth;
        };
        while (begin > 0 && inside(begin - 1)) gather(--begin);
        while (end < buckets_.size() && inside(end)) gather(end++);
    }
    std::sort(found.begin(), found.end(), [&](const Contact& a, const Contact& b) {
        return nearer(target, a.id, b.id);
    });
    if (found.size() > count) found.resize(count);
    return found;
}

std::vector<Contact> RoutingTable::all() const {
    std::vector<Contact> contacts;
    for (const Bucket& bucket : buckets_)
        contacts.insert(contacts.end(), bucket.nodes.begin(), bucket.nodes.end());
    return contacts;
}

void RoutingTable::check_invariants() const {
    DEDLOC_CHECK(!buckets_.empty() && buckets_[0].lower == DhtId{});
    std::size_t nodes = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
        const Bucket& bucket = buckets_[i];
        DEDLOC_CHECK(bucket.nodes.size() <= options_.bucket_size);
        DEDLOC_CHECK(bucket.replacements.size() <= options_.bucket_size);
        if (i > 0) DEDLOC_CHECK(buckets_[i - 1].lower < bucket.lower);
        for (const Contact& contact : bucket.nodes) {
            DEDLOC_CHECK(contact.id != self_ && bucket_index(contact.id) == i);
            DEDLOC_CHECK(common_prefix_bits(contact.id, bucket.lower) >= bucket.depth);
            DEDLOC_CHECK(id_of(contact.peer) == contact.id);
        }
        nodes += bucket.nodes.size();
    }
    DEDLOC_CHECK(nodes == id_of_peer_.size());
}

}  // namespace dedloc::dht
