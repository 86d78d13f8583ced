#include "dedloc/p2p/kad_find_node.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/runtime/together.h"
#include "dedloc/security/hash.h"

namespace dedloc::p2p {

namespace {

using Distance = std::array<std::uint8_t, 32>;

Distance distance(const Digest& a, const Digest& b) {
    Distance result{};
    for (std::size_t i = 0; i < result.size(); ++i)
        result[i] = static_cast<std::uint8_t>(a.bytes[i] ^ b.bytes[i]);
    return result;
}

}  // namespace

// A look-up: the peers that may still be asked, nearest first.
struct PeerFinder::Search {
    PeerId target;
    Digest key;
    TimePoint deadline;
    std::map<Distance, PeerId> candidates;
    std::set<PeerId> seen;
    std::size_t asked = 0;
    std::size_t answered = 0;
    bool found = false;
};

const Digest& PeerFinder::key_of(const PeerId& peer) {
    const auto known = keys_.find(peer);
    if (known != keys_.end()) return known->second;
    if (keys_.size() >= 2 * address_book_peers_max) keys_.clear();
    return keys_.emplace(peer, security::sha256(peer.bytes())).first->second;
}

bool PeerFinder::is_server(const PeerId& peer) const {
    const auto connection = swarm_.table().best(peer);
    return connection && connection->offers(std::string(wire::kad_protocol));
}

std::vector<PeerId> PeerFinder::servers() const {
    std::vector<PeerId> found = swarm_.table().peers();
    std::erase_if(found, [&](const PeerId& peer) { return !is_server(peer); });
    return found;
}

// --------------------------------------------------------------------------------------- server

// Somebody in a network of ours; over a relay we do not see where it is.
bool PeerFinder::is_neighbour(const PeerId& asker) const {
    const auto connection = swarm_.table().best(asker);
    return !connection ||
           (!connection->is_relayed() && !is_public_(connection->remote_address().host));
}

bool PeerFinder::may_tell(const wire::Multiaddr& address,
                          const PeerId& of,
                          const PeerId& asker) const {
    if (is_public_(address.host().value_or("")) || swarm_.needed().is_protected(asker)) return true;
    return !swarm_.needed().is_protected(of) && is_neighbour(asker);
}

wire::KadPeer PeerFinder::describe(const PeerId& peer,
                                   const PeerId& asker,
                                   std::size_t addresses_max) const {
    wire::KadPeer entry;
    entry.id = to_bytes(peer.bytes());
    const auto addresses = peer == self_ ? own_addresses_() : swarm_.dialler().addresses().of(peer);
    for (const auto& address : addresses)
        if (entry.addresses.size() < addresses_max &&
            address.bytes().size() <= kad_sent_address_bytes_max && may_tell(address, peer, asker))
            entry.addresses.push_back(address.bytes());
    if (peer == self_ || swarm_.table().best(peer))
        entry.connection = wire::KadConnection::connected;
    return entry;
}

std::vector<PeerId> PeerFinder::nearest(const Digest& target, const PeerId& asker) {
    // Peers that answer such questions themselves come first: they lead further.
    std::map<std::pair<bool, Distance>, PeerId> sorted;
    for (const PeerId& peer : swarm_.dialler().addresses().peers()) {
        if (peer == asker || peer == self_) continue;
        const std::pair rank(!is_server(peer), distance(key_of(peer), target));
        sorted.emplace(rank, peer);
        if (sorted.size() > wire::kad_closer_peers_max) sorted.erase(std::prev(sorted.end()));
    }
    std::vector<PeerId> peers;
    for (auto& [rank, peer] : sorted) peers.push_back(std::move(peer));
    return peers;
}

wire::KadMessage PeerFinder::answer(const wire::KadMessage& request, const PeerId& asker) {
    wire::KadMessage answer;
    answer.type = request.type;
    answer.key = request.key;
    if (request.type != wire::KadType::find_node) return answer;  // a ping comes back
    const auto target = PeerId::from_bytes(request.key);
    const auto add = [&](const PeerId& peer, std::size_t addresses_max) {
        wire::KadPeer entry = describe(peer, asker, addresses_max);
        if (!entry.addresses.empty()) answer.closer_peers.push_back(std::move(entry));
    };
    if (target) add(*target, kad_sent_addresses_max);
    // A peer that asks for us wants to know whether we answer and how we are reached: nothing else.
    if (target && *target == self_) return answer;
    for (const PeerId& peer : nearest(security::sha256(request.key), asker))
        if (answer.closer_peers.size() < wire::kad_closer_peers_max && !(target && peer == *target))
            add(peer, kad_named_addresses_max);
    while (answer.closer_peers.size() > 1 && wire::encode(answer).size() > kad_sent_bytes_max)
        answer.closer_peers.pop_back();
    return answer;
}

Task<void> PeerFinder::serve(std::shared_ptr<transport::Stream> stream) {
    for (std::size_t requests = 0; requests < kad_requests_per_stream_max; ++requests) {
        stream->set_deadline(clock_.now() + kad_idle_max);
        auto bytes = co_await stream->read_prefixed(kad_request_bytes_max);
        if (!bytes) co_return;
        if (!*bytes) break;
        const auto request = wire::decode<wire::KadMessage>(**bytes);
        if (!request) co_return;
        const bool is_ours =
            request->type == wire::KadType::find_node || request->type == wire::KadType::ping;
        if (!is_ours) co_return;  // records and providers are kept elsewhere
        const PeerId asker = stream->remote();
        co_await swarm_.strangers().turn(asker);
        const Bytes answered = wire::encode(answer(*request, asker));
        swarm_.strangers().spend(asker, {.work = kad_answer_cost, .bytes = answered.size()});
        stream->write(wire::with_length_prefix(answered));
        auto sent = co_await stream->sent();
        if (!sent) co_return;
    }
    stream->finish();
}

// --------------------------------------------------------------------------------------- client

bool PeerFinder::may_find(const PeerId& peer) const {
    const auto missed = missed_.find(peer);
    if (missed != missed_.end() && clock_.now() < missed->second) return false;
    const auto all = swarm_.table().peers();
    return std::any_of(
        all.begin(), all.end(), [&](const PeerId& one) { return one != peer && is_server(one); });
}

Task<Result<wire::KadMessage>> PeerFinder::ask(PeerId server, Bytes key, TimePoint deadline) {
    auto opened = co_await swarm_.open_stream(server, deadline);
    if (!opened) co_return std::move(opened).error();
    const std::unique_ptr<transport::Stream> stream = *std::move(opened);
    stream->set_deadline(deadline);
    stream->propose(std::string(wire::kad_protocol));
    wire::KadMessage request;
    request.type = wire::KadType::find_node;
    request.key = std::move(key);
    stream->write(wire::with_length_prefix(wire::encode(request)));
    auto bytes = co_await stream->read_prefixed(kad_answer_bytes_max);
    if (!bytes) co_return std::move(bytes).error();
    if (!*bytes) co_return Error(ErrorKind::peer_gone, "the peer did not answer FIND_NODE");
    stream->finish();
    co_return wire::decode<wire::KadMessage>(**bytes);
}

void PeerFinder::receive_answer(Search& search, const wire::KadMessage& message) {
    ++search.answered;
    // No more than it should name: hearsay drives what is known out of the address book.
    std::size_t named = 0;
    for (const wire::KadPeer& entry : message.closer_peers) {
        if (++named > wire::kad_closer_peers_max) break;
        const auto peer = PeerId::from_bytes(entry.id);
        if (!peer || *peer == self_) continue;
        const auto addresses = wire::known_multiaddrs(entry.addresses);
        if (!addresses.empty()) swarm_.dialler().addresses().add_hearsay(*peer, addresses);
        const bool can_be_reached = !swarm_.dialler().addresses().of(*peer).empty();
        if (*peer == search.target) {
            search.found = search.found || can_be_reached;
        } else if (can_be_reached && search.seen.insert(*peer).second) {
            search.candidates.emplace(distance(key_of(*peer), search.key), *peer);
        }
    }
}

Task<void> PeerFinder::ask_nearest(SearchPtr search) {
    const auto next = search->candidates.begin();
    const PeerId server = next->second;
    search->candidates.erase(next);
    ++search->asked;
    const TimePoint deadline = std::min(search->deadline, clock_.now() + kad_query_max);
    Bytes key = to_bytes(search->target.bytes());
    auto answer = co_await ask(server, std::move(key), deadline);
    if (answer) {
        receive_answer(*search, *answer);
    } else {
        log(LogLevel::debug,
            "p2p",
            "FIND_NODE at {}: {}",
            server.short_text(),
            answer.error().message());
    }
}

Task<Result<void>> PeerFinder::find(PeerId peer, TimePoint deadline) {
    auto search = std::make_shared<Search>();
    search->target = peer;
    search->key = key_of(peer);
    search->deadline = std::min(deadline, clock_.now() + kad_search_max);
    for (const PeerId& server : servers()) {
        if (server == peer) continue;
        search->seen.insert(server);
        search->candidates.emplace(distance(key_of(server), search->key), server);
    }
    while (!search->found && !search->candidates.empty() && search->asked < kad_queries_max &&
           clock_.now() < search->deadline) {
        std::vector<Task<void>> tasks;
        const std::size_t count = std::min(kad_queries_at_once_max, search->candidates.size());
        for (std::size_t i = 0; i < count; ++i) tasks.push_back(ask_nearest(search));
        co_await runtime::all_of(std::move(tasks));
    }
    if (search->found) {
        missed_.erase(peer);
        co_return Ok();
    }
    if (missed_.size() >= kad_missed_max) missed_.erase(missed_.begin());
    missed_[peer] = clock_.now() + kad_missed_pause;
    co_return make_error(ErrorKind::not_found,
                         "no address of peer {} is known to us or to the {} peers that answered",
                         peer.short_text(),
                         search->answered);
}

}  // namespace dedloc::p2p
