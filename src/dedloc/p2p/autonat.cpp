#include "dedloc/p2p/autonat.h"

#include <algorithm>
#include <utility>

#include "dedloc/p2p/relay_stream.h"
#include "dedloc/runtime/together.h"

namespace dedloc::p2p {

Task<Result<DialledBack>> ask_dial_back(std::shared_ptr<PeerConnection> server,
                                        PeerId me,
                                        std::vector<wire::Multiaddr> addresses,
                                        TimePoint deadline) {
    auto opened = co_await server->open_stream(deadline);
    if (!opened) co_return std::move(opened).error();
    const std::shared_ptr<transport::Stream> stream = *std::move(opened);
    stream->set_deadline(deadline);
    stream->propose(std::string(wire::autonat_protocol));
    wire::RelayPeer self;
    self.id = to_bytes(me.bytes());
    for (const auto& address : addresses)
        if (self.addresses.size() < autonat_addresses_max)
            self.addresses.push_back(address.bytes());
    wire::AutonatMessage request;
    request.type = wire::AutonatType::dial;
    request.dial.emplace();
    request.dial->peer = std::move(self);
    stream->write(wire::with_length_prefix(wire::encode(request)));
    stream->finish();
    auto bytes = co_await read_relay_message(*stream);
    if (!bytes) co_return std::move(bytes).error();
    auto answer = wire::decode<wire::AutonatMessage>(*bytes);
    if (!answer) co_return std::move(answer).error();
    if (answer->type != wire::AutonatType::dial_response || !answer->response)
        co_return Error(ErrorKind::peer_broke_protocol, "an answer that says nothing");
    DialledBack result;
    result.status = answer->response->status.value_or(wire::AutonatStatus::ok);
    if (auto address = wire::Multiaddr::from_bytes(answer->response->address))
        result.address = address->without_peer();
    co_return result;
}

// The first address that answers ends it.
struct AutonatServer::Search {
    Search(PeerId whom, TimePoint until, runtime::Executor executor)
        : peer(std::move(whom)), deadline(until), found(std::move(executor)) {}
    PeerId peer;
    TimePoint deadline;
    runtime::Event found;
    std::optional<wire::Multiaddr> address;
};

bool AutonatServer::take_turn(const PeerId& peer) {
    const TimePoint now = clock_.now();
    while (!turns_.empty() && now - turns_.front().first > std::chrono::minutes(1))
        turns_.pop_front();
    const auto of_peer = static_cast<std::size_t>(
        std::ranges::count_if(turns_, [&](const auto& turn) { return turn.second == peer; }));
    if (turns_.size() >= autonat_dials_per_minute_max ||
        of_peer >= autonat_dials_per_peer_per_minute_max)
        return false;
    turns_.emplace_back(now, peer);
    return true;
}

std::vector<wire::Multiaddr> AutonatServer::to_dial(const std::vector<Bytes>& asked,
                                                    const std::string& observed_ip) {
    std::vector<wire::Multiaddr> addresses;
    for (const auto& address : wire::known_multiaddrs(asked)) {
        if (!address.is_plain_tcp() || addresses.size() >= autonat_addresses_max) continue;
        if (*address.tcp_port() == 0) continue;
        const auto moved = wire::Multiaddr::tcp(observed_ip, *address.tcp_port());
        if (moved && std::ranges::find(addresses, *moved) == addresses.end())
            addresses.push_back(*moved);
    }
    return addresses;
}

Task<void> AutonatServer::try_address(std::shared_ptr<Search> search, wire::Multiaddr address) {
    auto reached = co_await dial_back_(address, search->peer, search->deadline);
    if (reached && !search->address) {
        search->address = address;
        search->found.set();
    }
    // The others may still succeed; and a failure is told only when time is up.
    if (!search->address) co_await search->found.wait();
}

namespace {

Task<void> wait_for(runtime::Event& found, runtime::Clock& clock, TimePoint deadline) {
    (void)co_await found.wait_until(clock, deadline);
}

}  // namespace

Task<DialledBack> AutonatServer::answer(ConnectionPtr connection, Bytes request) {
    DialledBack result;
    const PeerId peer = connection->remote();
    const auto message = wire::decode<wire::AutonatMessage>(request);
    const bool is_dial =
        message && message->type == wire::AutonatType::dial && message->dial && message->dial->peer;
    if (!is_dial || !std::ranges::equal(ByteView(message->dial->peer->id), peer.bytes())) {
        result.status = wire::AutonatStatus::bad_request;
        co_return result;
    }
    const std::string ip = connection->remote_address().host;
    const auto addresses = to_dial(message->dial->peer->addresses, ip);
    if (connection->is_relayed() || !is_public_(ip) || addresses.empty() || !take_turn(peer)) {
        result.status = wire::AutonatStatus::dial_refused;
        co_return result;
    }
    const TimePoint deadline = clock_.now() + autonat_dial_max;
    auto search = std::make_shared<Search>(peer, deadline, executor_);
    std::vector<Task<void>> tries;
    for (const auto& address : addresses) tries.push_back(try_address(search, address));
    auto all = runtime::all_of(std::move(tries));
    auto end = wait_for(search->found, clock_, deadline);
    co_await runtime::first_of(std::move(all), std::move(end));
    result.status = search->address ? wire::AutonatStatus::ok : wire::AutonatStatus::dial_error;
    result.address = search->address;
    co_return result;
}

Task<void> AutonatServer::serve(ConnectionPtr connection,
                                std::shared_ptr<transport::Stream> stream) {
    stream->set_deadline(clock_.now() + relay_message_wait_max);
    auto bytes = co_await read_relay_message(*stream);
    if (!bytes) {
        stream->reset();
        co_return;
    }
    const DialledBack result = co_await answer(std::move(connection), *std::move(bytes));
    wire::AutonatMessage reply;
    reply.type = wire::AutonatType::dial_response;
    reply.response.emplace();
    reply.response->status = result.status;
    if (result.address) reply.response->address = result.address->bytes();
    stream->write(wire::with_length_prefix(wire::encode(reply)));
    stream->finish();
}

}  // namespace dedloc::p2p
