#include "dedloc/p2p/make_host.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/ip_family.h"
#include "dedloc/p2p/libp2p_host.h"
#include "dedloc/p2p/protocols.h"
#include "dedloc/runtime/deadline.h"

namespace dedloc::p2p {

// ----------------------------------------------------------------------------------- addresses

NatService::Surroundings Libp2pHost::nat_surroundings() {
    NatService::Surroundings around{
        .executor = options_.executor,
        .clock = options_.clock,
        .identity = options_.identity,
        .swarm = swarm_,
        .scope = scope_,
        .interfaces = [this] { return listeners_at(options_.network.interface_addresses()); },
        .outward = [this] { return listeners_at(options_.network.outward_addresses()); },
        .on_change = [this] { identify_.push_soon(); },
        .announced = {},
        .port_mapper = options_.port_mapper};
    for (const std::string& text : options_.announce)
        if (auto address = wire::Multiaddr::from_text(text))
            around.announced.push_back(address->without_peer());
    return around;
}

// Addresses that we listen on, wildcards replaced by the machine's.
std::vector<wire::Multiaddr> Libp2pHost::listeners_at(
    const std::vector<std::string>& machine) const {
    std::vector<wire::Multiaddr> own;
    for (const auto& socket : swarm_.listen_addresses()) {
        std::vector<std::string> hosts(1, socket.host);
        if (socket.host == "0.0.0.0" || socket.host == "::") hosts = machine;
        for (const std::string& host : hosts) {
            if (is_ip6(host) != is_ip6(socket.host)) continue;
            if (auto address = wire::Multiaddr::tcp(host, socket.port))
                own.push_back(*std::move(address));
        }
    }
    return own;
}

std::vector<std::string> Libp2pHost::addresses() const {
    std::vector<std::string> texts;
    for (const auto& address : nat_.addresses()) texts.push_back(address.text());
    return texts;
}

void Libp2pHost::add_addresses(const PeerId& peer, const std::vector<std::string>& addresses) {
    std::vector<wire::Multiaddr> parsed;
    for (const std::string& text : addresses)
        if (auto address = wire::Multiaddr::from_text(text)) parsed.push_back(*std::move(address));
    const auto before = swarm_.dialler().addresses().of(peer);
    swarm_.dialler().addresses().add(peer, parsed);
    const auto& after = swarm_.dialler().addresses().of(peer);
    const bool has_news = std::any_of(after.begin(), after.end(), [&](const auto& address) {
        return std::find(before.begin(), before.end(), address) == before.end();
    });
    if (!has_news) return;
    swarm_.dialler().forget_backoff(peer);
    swarm_.dialler().extend(peer);
}

std::vector<std::string> Libp2pHost::addresses_of(const PeerId& peer) const {
    std::vector<std::string> texts;
    for (const auto& address : swarm_.dialler().addresses().of(peer))
        texts.push_back(address.text());
    return texts;
}

Task<Result<PeerId>> Libp2pHost::dial(std::string multiaddr, TimePoint deadline) {
    auto address = wire::Multiaddr::from_text(multiaddr);
    if (!address) co_return std::move(address).error();
    if (!can_be_dialled(*address))
        co_return make_error(ErrorKind::bad_input,
                             "\"{}\" cannot be dialled; addresses look like "
                             "/ip4/10.0.0.1/tcp/4001/p2p/12D3KooW…",
                             multiaddr);
    auto peer = co_await swarm_.dialler().dial(*address, deadline);
    co_return peer;
}

// A peer of whom only the id is known: others may know where it is.
Task<void> Libp2pHost::locate(PeerId peer, TimePoint deadline) {
    if (peer == id() || swarm_.table().best(peer) || !swarm_.dialler().addresses().of(peer).empty())
        co_return;
    if (!finder_.may_find(peer)) co_return;
    auto found = co_await finder_.find(peer, deadline);
    if (found)
        swarm_.dialler().forget_backoff(peer);
    else
        log(LogLevel::debug, "p2p", "{}", found.error().message());
}

Task<Result<void>> Libp2pHost::connect(PeerId peer, TimePoint deadline) {
    co_await locate(peer, deadline);
    auto connected = co_await swarm_.dialler().connect(peer, deadline);
    co_return connected;
}

std::vector<wire::Multiaddr> Libp2pHost::own_addresses() const {
    std::vector<wire::Multiaddr> own;
    for (const std::string& text : addresses())
        if (auto address = wire::Multiaddr::from_text(text)) own.push_back(*std::move(address));
    return own;
}

// --------------------------------------------------------------------------------------- calls

wire::CallId Libp2pHost::new_call_id() {
    wire::CallId id{};
    for (std::uint8_t& byte : id) byte = static_cast<std::uint8_t>(random_.next() >> 56);
    id[6] = static_cast<std::uint8_t>((id[6] & 0x0f) | 0x40);  // a UUID of version 4
    id[8] = static_cast<std::uint8_t>((id[8] & 0x3f) | 0x80);
    return id;
}

Task<Result<Bytes>> Libp2pHost::call(PeerId peer,
                                     std::string method,
                                     Bytes request,
                                     TimePoint deadline) {
    const wire::CallId id = new_call_id();
    auto encoded = encode_call(id, method, request);
    if (!encoded) co_return std::move(encoded).error();
    request = Bytes();
    co_await locate(peer, deadline);
    auto opened = co_await swarm_.open_stream(peer, deadline);
    if (!opened) co_return std::move(opened).error();
    std::unique_ptr<transport::Stream> stream = *std::move(opened);
    stream->set_deadline(deadline);
    stream->propose(method);
    auto answer = co_await finish_call(std::move(stream), id, *std::move(encoded));
    if (answer || answer.error().kind() != ErrorKind::timeout || options_.clock.now() < deadline)
        co_return answer;
    swarm_.doubt(peer);
    co_return make_error(
        ErrorKind::timeout, "peer {} did not answer \"{}\" in time", peer.short_text(), method);
}

Task<Result<std::unique_ptr<MessageStream>>> Libp2pHost::open_stream(PeerId peer,
                                                                     std::string method,
                                                                     TimePoint deadline) {
    co_await locate(peer, deadline);
    const std::shared_ptr<MethodFacts> facts = facts_of_method(method);
    auto opened = co_await swarm_.open_stream(peer, deadline, facts && facts->is_bulk);
    if (!opened) co_return std::move(opened).error();
    std::shared_ptr<transport::Stream> stream = *std::move(opened);
    stream->set_deadline(deadline);
    stream->propose(method);
    // A caller wants to know that the method is there before it sends megabytes on a stream;
    // where identify has said so, that saves a round trip, and the first read confirms it.
    const ConnectionPtr connection = swarm_.table().best(peer);
    if (!connection || !connection->offers(method)) {
        auto confirmed = co_await stream->confirm();
        if (!confirmed) co_return std::move(confirmed).error();
        if (connection) connection->add_protocol(method);
    }
    stream->set_deadline(TimePoint::never());
    co_return make_message_stream(std::move(stream), facts);
}

// Null for methods beyond the limit, of which nothing is learnt.
std::shared_ptr<MethodFacts> Libp2pHost::facts_of_method(const std::string& method) {
    const auto found = methods_called_.find(method);
    if (found != methods_called_.end()) return found->second;
    if (methods_called_.size() >= handlers_max) return nullptr;
    return methods_called_.emplace(method, std::make_shared<MethodFacts>()).first->second;
}

// ------------------------------------------------------------------------------------- serving

bool Libp2pHost::offers(const std::string& protocol) const {
    // A host that cannot be dialled is of no use in others' tables.
    if (protocol == wire::kad_protocol) return !options_.listen.empty();
    return protocol == wire::identify_protocol || protocol == wire::identify_push_protocol ||
           protocol == ping_protocol || nat_.offers(protocol) || methods_served_.has(protocol);
}

std::vector<std::string> Libp2pHost::protocols() const {
    std::vector<std::string> all{std::string(wire::identify_protocol),
                                 std::string(wire::identify_push_protocol),
                                 std::string(ping_protocol)};
    if (offers(std::string(wire::kad_protocol))) all.emplace_back(wire::kad_protocol);
    if (!options_.listen.empty()) all.emplace_back(transport::lane_protocol);
    for (const std::string_view protocol : nat_.protocols()) all.emplace_back(protocol);
    for (std::string& method : methods_served_.methods()) all.push_back(std::move(method));
    return all;
}

void Libp2pHost::receive_stream(ConnectionPtr connection,
                                std::shared_ptr<transport::YamuxStream> stream) {
    const PeerId& peer = connection->remote();
    const bool is_stranger = swarm_.strangers().contain(peer);
    const std::size_t tasks_max = is_stranger ? stranger_streams_max : stream_tasks_max;
    if (stopping_ || loads_.streams_of(peer) >= tasks_max) {
        stream->reset();
        return;
    }
    if (is_stranger) swarm_.strangers().spend(peer, {.work = stream_cost});
    auto guard = std::make_shared<StreamLoads::Guard>(loads_, peer);
    auto serving = std::make_shared<MethodServer::Serving>();
    std::shared_ptr<transport::Stream> adopted = connection->adopt(std::move(stream));
    serving->task = scope_.spawn(
        "p2p serve", serve(std::move(connection), std::move(adopted), serving, std::move(guard)));
}

Task<void> Libp2pHost::serve(ConnectionPtr connection,
                             std::shared_ptr<transport::Stream> stream,
                             std::shared_ptr<MethodServer::Serving> serving,
                             std::shared_ptr<StreamLoads::Guard> guard) {
    stream->set_deadline(options_.clock.now() + transport::negotiation_max);
    const std::function<bool(const std::string&)> is_offered = [this](const std::string& protocol) {
        return offers(protocol);
    };
    auto protocol = co_await stream->accept_proposal(is_offered);
    if (!protocol) {
        // An end, not a reset: go-yamux would throw away the "na" that is on its way.
        if (protocol.error().kind() != ErrorKind::timeout) stream->finish();
        co_return;
    }
    if (*protocol == wire::identify_protocol) {
        co_await identify_.serve(connection, stream);
    } else if (*protocol == ping_protocol) {
        const PeerId peer = connection->remote();
        const auto spend = [this, peer] { swarm_.strangers().spend(peer, {.work = ping_cost}); };
        if (guard->becomes_ping()) co_await serve_ping(stream, &options_.clock, spend);
    } else if (*protocol == wire::kad_protocol) {
        if (guard->becomes_kad()) co_await finder_.serve(stream);
    } else if (*protocol == wire::identify_push_protocol) {
        if (guard->becomes_push()) co_await identify_.receive_push(connection, stream);
    } else if (nat_.offers(*protocol)) {
        co_await nat_.serve(*std::move(protocol), connection, stream);
    } else if (methods_served_.has(*protocol)) {  // else it was removed meanwhile
        const bool overloaded = !guard->becomes_handler();
        co_await methods_served_.serve(*std::move(protocol), stream, serving, overloaded);
    }
}

Task<void> Libp2pHost::stop() {
    stopping_ = true;
    identify_.stop();
    co_await swarm_.close_all();
    co_await nat_.close();
    co_await scope_.stop();
}

PeerView* view_of(Host& host) {
    auto* const real = dynamic_cast<Libp2pHost*>(&host);
    return real ? &real->diagnostics() : nullptr;
}

const NatView* nat_of(const Host& host) {
    const auto* const real = dynamic_cast<const Libp2pHost*>(&host);
    return real ? &real->diagnostics() : nullptr;
}

Result<std::unique_ptr<Host>> make_host(HostOptions options) {
    DEDLOC_TRY(auto upgrades, transport::UpgradeContext::make(options.identity, options.security));
    auto host = std::make_unique<Libp2pHost>(std::move(options), std::move(upgrades));
    DEDLOC_TRY_VOID(host->listen());
    return std::unique_ptr<Host>(std::move(host));
}

}  // namespace dedloc::p2p
