// The part of Swarm that decides what strangers may cost: their turn to be read from, their
// connections, the memory that their bytes may take.

#include <algorithm>
#include <map>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/nat.h"
#include "dedloc/p2p/swarm_parts.h"
#include "dedloc/runtime/heap.h"

namespace dedloc::p2p {

bool Swarm::is_stranger(const PeerId& peer) const {
    return options_.limits_strangers && !is_needed(peer) && !vouched_for_.contains(peer);
}

void Swarm::vouch(const PeerId& peer) {
    if (peers_.contains(peer)) vouched_for_.insert(peer);
}

// Those who come over one relay come from one address, to us.
std::string Swarm::address_behind(const PeerConnection& connection) {
    return connection.is_relayed() ? connection.origin().relay.text()
                                   : connection.remote_address().host;
}

StrangerBudget::Asker Swarm::asker(const PeerId& peer) const {
    StrangerBudget::Asker asker;
    asker.peer = std::string(as_text(peer.bytes()));
    if (const ConnectionPtr connection = best(peer)) asker.address = address_behind(*connection);
    return asker;
}

void Swarm::spend(const PeerId& peer, const StrangerBudget::Cost& cost) {
    if (is_stranger(peer)) budget_.spend(asker(peer), cost, options_.clock.now());
}

Task<void> Swarm::strangers_turn(PeerId peer) {
    const TimePoint until = options_.clock.now() + stranger_pause_max;
    for (;;) {
        const TimePoint now = options_.clock.now();
        if (now >= until || !is_stranger(peer)) co_return;
        const Duration wait = budget_.wait(asker(peer), now);
        if (wait == Duration(0)) co_return;
        co_await options_.clock.sleep_for(std::min(wait, until - now));
    }
}

// A handshake is the most that a stranger can ask for; who it is shows only then.
Task<void> Swarm::wait_at_the_door(std::string address) {
    if (!options_.limits_strangers) co_return;
    const StrangerBudget::Asker asker{.peer = {}, .address = std::move(address)};
    for (;;) {
        const TimePoint now = options_.clock.now();
        const Duration wait = budget_.wait(asker, now);
        if (wait == Duration(0)) break;
        co_await options_.clock.sleep_for(std::min(wait, stranger_pause_max));
    }
    budget_.spend(asker, {.work = handshake_cost}, options_.clock.now());
}

// ------------------------------------------------------------------------------------ connections

std::size_t Swarm::stranger_connections_max() const {
    std::size_t most = std::min(p2p::stranger_connections_max, options_.connections_max);
    if (options_.memory_bytes == 0) return most;
    const std::uint64_t fit =
        options_.memory_bytes / strangers_part_of_memory / stranger_connection_bytes;
    return std::min<std::uint64_t>(most, std::max<std::uint64_t>(fit, stranger_connections_min));
}

// Whoever makes room is of the same address or network when that has too many, else the one of all
// strangers that was unused longest.
void Swarm::make_room_for_stranger(const std::string& address) {
    const std::string network = transport::network_of(address);
    std::vector<ConnectionPtr> of_address;
    std::vector<ConnectionPtr> of_network;
    auto all = dispensable(Duration(0));
    for (const ConnectionPtr& one : all) {
        const std::string theirs = address_behind(*one);
        if (theirs == address) of_address.push_back(one);
        if (transport::network_of(theirs) == network) of_network.push_back(one);
    }
    if (of_address.size() >= stranger_connections_per_address_max)
        let_go(of_address.front());
    else if (of_network.size() >= stranger_connections_per_network_max)
        let_go(of_network.front());
    else if (all.size() >= stranger_connections_max())
        let_go(all.front());
}

// ----------------------------------------------------------------------------------------- memory

void Swarm::limit_memory() {
    transport::StreamMemory& memory = *stream_memory_;
    if (options_.limits_strangers) {
        memory.strangers_part = stranger_bytes_part;
        memory.strangers_share_min = stranger_share_bytes_min;
    }
    if (options_.memory_bytes == 0) return;
    const auto part = [this](std::uint64_t of_memory, std::size_t most) {
        return static_cast<std::size_t>(
            std::clamp<std::uint64_t>(options_.memory_bytes / of_memory, host_bytes_min, most));
    };
    memory.received_max = part(received_part_of_memory, transport::host_received_bytes_max);
    memory.queued_max = part(queued_part_of_memory, transport::host_queued_bytes_max);
}

// A flood's memory lies between what is in use, where nothing but this finds it.
void Swarm::give_back_memory() {
    if (strangers_gone_ < strangers_gone_max) return;
    strangers_gone_ = 0;
    runtime::give_back_freed_memory();
}

}  // namespace dedloc::p2p
