#include "dedloc/p2p/strangers.h"

#include <algorithm>
#include <utility>

#include "dedloc/p2p/nat.h"
#include "dedloc/runtime/heap.h"

namespace dedloc::p2p {

Strangers::Strangers(SwarmParts& parts, const ConnectionTable& table)
    : parts_(parts), table_(table) {
    limit_memory();
}

bool Strangers::contain(const PeerId& peer) const {
    return parts_.options.limits_strangers && !parts_.needed.is_needed(peer) &&
           !vouched_for_.contains(peer);
}

void Strangers::vouch(const PeerId& peer) {
    if (!table_.to(peer).empty()) vouched_for_.insert(peer);
}

void Strangers::one_ended(const PeerId& peer) {
    if (contain(peer)) ++ended_;
}

std::string address_behind(const PeerConnection& connection) {
    return connection.is_relayed() ? connection.origin().relay.text()
                                   : connection.remote_address().host;
}

StrangerBudget::Asker Strangers::asker(const PeerId& peer) const {
    StrangerBudget::Asker asker;
    asker.peer = std::string(as_text(peer.bytes()));
    if (const ConnectionPtr connection = table_.best(peer))
        asker.address = address_behind(*connection);
    return asker;
}

void Strangers::spend(const PeerId& peer, const StrangerBudget::Cost& cost) {
    if (contain(peer)) budget_.spend(asker(peer), cost, parts_.now());
}

Task<void> Strangers::turn(PeerId peer) {
    const TimePoint until = parts_.now() + stranger_pause_max;
    for (;;) {
        const TimePoint now = parts_.now();
        if (now >= until || !contain(peer)) co_return;
        const Duration wait = budget_.wait(asker(peer), now);
        if (wait == Duration(0)) co_return;
        co_await parts_.clock().sleep_for(std::min(wait, until - now));
    }
}

// A handshake is the most that a stranger can ask for, and its id shows only then.
Task<void> Strangers::wait_at_the_door(std::string address) {
    if (!parts_.options.limits_strangers) co_return;
    const StrangerBudget::Asker asker{.peer = {}, .address = std::move(address)};
    for (;;) {
        const TimePoint now = parts_.now();
        const Duration wait = budget_.wait(asker, now);
        if (wait == Duration(0)) break;
        co_await parts_.clock().sleep_for(std::min(wait, stranger_pause_max));
    }
    budget_.spend(asker, {.work = handshake_cost}, parts_.now());
}

// ----------------------------------------------------------------------------------------- memory

void Strangers::limit_memory() {
    transport::StreamMemory& memory = *memory_;
    if (parts_.options.limits_strangers) {
        memory.strangers_part = stranger_bytes_part;
        memory.strangers_share_min = stranger_share_bytes_min;
    }
    if (parts_.options.memory_bytes == 0) return;
    const auto part = [this](std::uint64_t of_memory, std::size_t most) {
        return static_cast<std::size_t>(std::clamp<std::uint64_t>(
            parts_.options.memory_bytes / of_memory, host_bytes_min, most));
    };
    memory.received_max = part(received_part_of_memory, transport::host_received_bytes_max);
    memory.queued_max = part(queued_part_of_memory, transport::host_queued_bytes_max);
}

// A flood's memory lies between what is in use, where nothing but this finds it.
void Strangers::give_back_memory() {
    if (ended_ < strangers_gone_max) return;
    ended_ = 0;
    runtime::give_back_freed_memory();
}

}  // namespace dedloc::p2p
