// A host tells others about itself, and learns about them: identify and identify/push.

#include <algorithm>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/libp2p_host.h"
#include "dedloc/p2p/protocols.h"
#include "dedloc/runtime/deadline.h"

namespace dedloc::p2p {

Bytes Libp2pHost::identify_answer(const PeerConnection& connection) const {
    wire::Identify identify;
    identify.public_key = options_.identity.public_key().protobuf();
    for (const std::string& text : addresses()) {
        if (const auto address = wire::Multiaddr::from_text(text))
            identify.listen_addresses.push_back(address->bytes());
    }
    identify.protocols.emplace_back(wire::identify_protocol);
    identify.protocols.emplace_back(wire::identify_push_protocol);
    identify.protocols.emplace_back(ping_protocol);
    if (offers(std::string(wire::kad_protocol)))
        identify.protocols.emplace_back(wire::kad_protocol);
    if (!options_.listen.empty()) identify.protocols.emplace_back(transport::lane_protocol);
    for (const std::string_view protocol : nat_.protocols())
        identify.protocols.emplace_back(protocol);
    for (const auto& [method, handler] : handlers_) identify.protocols.push_back(method);
    // Over a relay we do not see where the peer is.
    const auto remote =
        connection.is_relayed() ? runtime::SocketAddress{} : connection.remote_address();
    if (const auto observed = wire::Multiaddr::tcp(remote.host, remote.port))
        identify.observed_address = observed->bytes();
    identify.protocol_version = libp2p_protocol_version;
    identify.agent_version = options_.agent_version;
    return encode_identify(std::move(identify));
}

Task<void> Libp2pHost::identify(ConnectionPtr connection) {
    const TimePoint deadline = options_.clock.now() + transport::negotiation_max;
    auto answer = co_await ask_identify(connection, deadline);
    if (!answer) {
        log(LogLevel::debug,
            "p2p",
            "identify of {}: {}",
            connection->remote().short_text(),
            answer.error().message());
        co_return;
    }
    learn(connection, *answer);
}

namespace {

// One who comes from the Internet tells of an address that every network has its own of: dialled
// from here it would lead to a machine of ours.
bool means_another_network(const wire::Multiaddr& address, const ConnectionPtr& connection) {
    if (connection->is_relayed() || !is_public_address(connection->remote_address().host))
        return false;
    const auto code = address.parts().front().code;
    const bool is_ip = code == wire::MultiaddrCode::ip4 || code == wire::MultiaddrCode::ip6;
    return is_ip && !is_public_address(address.host().value_or(""));
}

}  // namespace

void Libp2pHost::learn(const ConnectionPtr& connection, const wire::Identify& answer) {
    auto addresses = wire::known_multiaddrs(answer.listen_addresses);
    std::erase_if(addresses, [&](const wire::Multiaddr& address) {
        return means_another_network(address, connection);
    });
    swarm_.addresses().add_hearsay(connection->remote(), addresses);
    connection->set_protocols(remembered_protocols(answer.protocols));
    connection->set_agent(answer.agent_version.substr(0, agent_bytes_max));
    nat_.identified(connection, answer);
}

Task<void> Libp2pHost::take_push(ConnectionPtr connection,
                                 std::shared_ptr<transport::Stream> stream) {
    Bytes whole;
    for (std::size_t messages = 0; messages < identify_messages_max; ++messages) {
        auto message = co_await stream->read_prefixed(identify_message_bytes_max);
        if (!message) co_return;
        if (!*message) break;
        base::append(whole, **message);
    }
    stream->finish();
    swarm_.spend(connection->remote(), {.work = answer_cost});
    const auto identify = wire::decode<wire::Identify>(whole);
    if (identify) learn(connection, *identify);
}

// Our addresses or protocols have changed: those who asked before are told, soon and together.
void Libp2pHost::push_identify_soon() {
    if (stopping_ || swarm_.connections().empty() || std::exchange(push_pending_, true)) return;
    scope_.spawn("p2p identify push", push_identify());
}

Task<void> Libp2pHost::push_identify() {
    co_await options_.clock.sleep_for(identify_push_pause);
    push_pending_ = false;
    for (const ConnectionPtr& connection : swarm_.connections())
        if (connection->is_usable() &&
            connection->offers(std::string(wire::identify_push_protocol)))
            scope_.spawn("p2p identify push", push_to(connection));
}

Task<void> Libp2pHost::push_to(ConnectionPtr connection) {
    const TimePoint deadline = options_.clock.now() + transport::negotiation_max;
    auto opened = co_await connection->open_stream(deadline);
    if (!opened) co_return;
    const std::unique_ptr<transport::Stream> stream = *std::move(opened);
    stream->set_deadline(deadline);
    stream->propose(std::string(wire::identify_push_protocol));
    const Bytes answer = identify_answer(*connection);
    stream->write(wire::with_length_prefix(answer));
    stream->finish();
    (void)co_await stream->confirm();
}

}  // namespace dedloc::p2p
