#include "dedloc/p2p/identify_exchange.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/protocols.h"
#include "dedloc/runtime/deadline.h"

namespace dedloc::p2p {

Bytes IdentifyExchange::answer_to(const PeerConnection& connection) const {
    wire::Identify identify;
    identify.public_key = self_.identity.public_key().protobuf();
    for (const std::string& text : self_.addresses()) {
        if (const auto address = wire::Multiaddr::from_text(text))
            identify.listen_addresses.push_back(address->bytes());
    }
    identify.protocols = self_.protocols();
    // Over a relay we do not see where the peer is.
    const auto remote =
        connection.is_relayed() ? runtime::SocketAddress{} : connection.remote_address();
    if (const auto observed = wire::Multiaddr::tcp(remote.host, remote.port))
        identify.observed_address = observed->bytes();
    identify.protocol_version = libp2p_protocol_version;
    identify.agent_version = self_.agent_version;
    return encode_identify(std::move(identify));
}

Task<void> IdentifyExchange::serve(ConnectionPtr connection,
                                   std::shared_ptr<transport::Stream> stream) {
    Bytes answer = answer_to(*connection);
    swarm_.strangers().spend(connection->remote(), {.work = answer_cost, .bytes = answer.size()});
    co_await serve_identify(stream, std::move(answer), &self_.clock);
}

Task<void> IdentifyExchange::ask(ConnectionPtr connection) {
    const TimePoint deadline = self_.clock.now() + transport::negotiation_max;
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

// A peer from the Internet may tell of an address that every network has its own of: dialled from
// here it would lead to a machine of ours.
bool means_another_network(const wire::Multiaddr& address, const ConnectionPtr& connection) {
    if (connection->is_relayed() || !is_public_address(connection->remote_address().host))
        return false;
    const auto code = address.parts().front().code;
    const bool is_ip = code == wire::MultiaddrCode::ip4 || code == wire::MultiaddrCode::ip6;
    return is_ip && !is_public_address(address.host().value_or(""));
}

}  // namespace

void IdentifyExchange::learn(const ConnectionPtr& connection, const wire::Identify& answer) {
    auto addresses = wire::known_multiaddrs(answer.listen_addresses);
    std::erase_if(addresses, [&](const wire::Multiaddr& address) {
        return means_another_network(address, connection);
    });
    swarm_.dialler().addresses().add_hearsay(connection->remote(), addresses);
    connection->set_protocols(remembered_protocols(answer.protocols));
    connection->set_agent(answer.agent_version.substr(0, agent_bytes_max));
    nat_.identified(connection, answer);
}

Task<void> IdentifyExchange::receive_push(ConnectionPtr connection,
                                          std::shared_ptr<transport::Stream> stream) {
    Bytes whole;
    for (std::size_t messages = 0; messages < identify_messages_max; ++messages) {
        auto message = co_await stream->read_prefixed(identify_message_bytes_max);
        if (!message) co_return;
        if (!*message) break;
        base::append(whole, **message);
    }
    stream->finish();
    swarm_.strangers().spend(connection->remote(), {.work = answer_cost});
    const auto identify = wire::decode<wire::Identify>(whole);
    if (identify) learn(connection, *identify);
}

void IdentifyExchange::push_soon() {
    if (stopping_ || swarm_.table().all().empty() || std::exchange(push_pending_, true)) return;
    scope_.spawn("p2p identify push", push());
}

Task<void> IdentifyExchange::push() {
    co_await self_.clock.sleep_for(identify_push_pause);
    push_pending_ = false;
    for (const ConnectionPtr& connection : swarm_.table().all())
        if (connection->is_usable() &&
            connection->offers(std::string(wire::identify_push_protocol)))
            scope_.spawn("p2p identify push", push_to(connection));
}

Task<void> IdentifyExchange::push_to(ConnectionPtr connection) {
    const TimePoint deadline = self_.clock.now() + transport::negotiation_max;
    auto opened = co_await connection->open_stream(deadline);
    if (!opened) co_return;
    const std::unique_ptr<transport::Stream> stream = *std::move(opened);
    stream->set_deadline(deadline);
    stream->propose(std::string(wire::identify_push_protocol));
    const Bytes answer = answer_to(*connection);
    stream->write(wire::with_length_prefix(answer));
    stream->finish();
    (void)co_await stream->confirm();
}

}  // namespace dedloc::p2p
