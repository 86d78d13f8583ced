#include "dedloc/membership/peer_table.h"

#include <algorithm>

namespace dedloc::membership {
namespace {

// In a join string, which people send each other.
constexpr std::size_t own_direct_told = 4;
constexpr std::size_t own_relayed_told = 2;

bool is_relayed(std::string_view address) {
    return address.find("/p2p-circuit") != std::string_view::npos;
}

}  // namespace

void KnownPeer::note_speed() {
    samples_per_s_most = std::max(samples_per_s_most, status.samples_per_s);
    if (status.micro_batch_s <= 0) return;
    const double least = micro_batch_s_least;
    micro_batch_s_least = least > 0 ? std::min(least, status.micro_batch_s) : status.micro_batch_s;
}

const KnownPeer* PeerTable::find(const PeerId& peer) const {
    const auto known = peers_.find(peer);
    return known == peers_.end() ? nullptr : &known->second;
}

KnownPeer* PeerTable::find(const PeerId& peer) {
    const auto known = peers_.find(peer);
    return known == peers_.end() ? nullptr : &known->second;
}

bool PeerTable::is_member(const PeerId& peer) const {
    const KnownPeer* const known = find(peer);
    return known != nullptr && known->member;
}

bool PeerTable::is_fresh(const KnownPeer& peer) const {
    return clock_.now() - peer.received < fresh_for_;
}

std::vector<const KnownPeer*> PeerTable::live() const {
    std::vector<const KnownPeer*> live;
    for (const auto& [peer, known] : peers_)
        if (known.member && is_fresh(known)) live.push_back(&known);
    return live;
}

bool PeerTable::make_room_for(const PeerId& peer, Duration silent_for) {
    if (peers_.size() < peers_most_ || peers_.contains(peer)) return true;
    const TimePoint heard_before = clock_.now() - silent_for;
    const auto goes_before = [](const KnownPeer& left, const KnownPeer& right) {
        if (left.was_member != right.was_member) return right.was_member;
        return left.received < right.received;
    };
    auto goes = peers_.end();
    for (auto entry = peers_.begin(); entry != peers_.end(); ++entry) {
        const KnownPeer& known = entry->second;
        if (known.member || known.received > heard_before) continue;
        if (goes == peers_.end() || goes_before(known, goes->second)) goes = entry;
    }
    if (goes == peers_.end()) return false;
    peers_.erase(goes);
    return true;
}

bool PeerTable::make_room_for_member(const PeerId& peer) {
    return make_room_for(peer, Duration(0)) || evict_an_idle_member();
}

// The one that is here longest without having brought anything. It may come again.
bool PeerTable::evict_an_idle_member() {
    const TimePoint came_before = clock_.now() - idle_place_for;
    auto goes = peers_.end();
    for (auto entry = peers_.begin(); entry != peers_.end(); ++entry) {
        const KnownPeer& known = entry->second;
        if (known.contributed || known.first_heard_of > came_before) continue;
        if (goes == peers_.end() || known.first_heard_of < goes->second.first_heard_of)
            goes = entry;
    }
    if (goes == peers_.end()) return false;
    set_member(goes->second, false);
    peers_.erase(goes);
    return true;
}

bool PeerTable::may_admit(const PeerId& peer) {
    const KnownPeer* const known = find(peer);
    return (known != nullptr && known->was_member) || newcomers_.has(clock_.now());
}

void PeerTable::contributed(const PeerId& peer) {
    if (KnownPeer* const known = find(peer)) known->contributed = true;
}

// A peer that is news starts its time until drop_stale() now: the real clock does not begin at
// zero.
KnownPeer& PeerTable::entry_of(const PeerId& peer) {
    const auto [entry, is_new] = peers_.try_emplace(peer);
    KnownPeer& known = entry->second;
    if (is_new) {
        known.status.peer = peer;
        known.received = clock_.now();
        known.first_heard_of = clock_.now();
    }
    return known;
}

bool PeerTable::admit(const PeerId& peer) {
    if (!make_room_for_member(peer)) return false;
    KnownPeer& known = entry_of(peer);
    known.received = clock_.now();
    known.next_meeting = TimePoint{};
    known.tries = 0;
    if (known.member) return false;
    known.told.reset();  // by another connection, to another process perhaps
    set_member(known, true);
    return true;
}

void PeerTable::set_member(KnownPeer& known, bool member) {
    known.member = member;
    if (member && !known.was_member) (void)newcomers_.acquire(clock_.now());
    if (member) known.was_member = true;
    host_.protect(known.status.peer, member);
}

void PeerTable::drop_stale() {
    const TimePoint now = clock_.now();
    std::erase_if(peers_, [now](const auto& entry) {
        const KnownPeer& known = entry.second;
        const bool comes_back = known.was_member && known.status.phase != Phase::leaving;
        const Duration after = known.contributed ? member_for : idle_member_for;
        return !known.member && now - known.received > (comes_back ? after : heard_of_for);
    });
}

std::vector<std::string> addresses_for_newcomers(const p2p::Host& host,
                                                 std::vector<const KnownPeer*> others,
                                                 std::size_t peers_told) {
    std::vector<std::string> all;
    const auto add = [&all](const std::vector<std::string>& addresses,
                            const PeerId& peer,
                            std::size_t direct_max,
                            std::size_t relayed_max) {
        for (const std::string& address : addresses) {
            std::size_t& left = is_relayed(address) ? relayed_max : direct_max;
            if (left == 0) continue;
            --left;
            all.push_back(address + "/p2p/" + peer.text());
        }
    };
    add(host.addresses(), host.id(), own_direct_told, own_relayed_told);
    std::erase_if(others, [](const KnownPeer* peer) {
        return peer->status.addresses.empty() || peer->status.role == Role::observer;
    });
    std::ranges::stable_sort(others, {}, [](const KnownPeer* peer) {
        const bool relayed = std::ranges::any_of(peer->status.addresses, is_relayed);
        return std::make_pair(peer->status.role != Role::relay, relayed);
    });
    for (std::size_t i = 0; i < others.size() && i + 1 < peers_told; ++i)
        add(others[i]->status.addresses, others[i]->status.peer, 1, 1);
    return all;
}

}  // namespace dedloc::membership
