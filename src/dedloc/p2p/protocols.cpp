#include "dedloc/p2p/protocols.h"

#include <array>

namespace dedloc::p2p {

Bytes encode_identify(wire::Identify identify) {
    Bytes bytes = wire::encode(identify);
    while (bytes.size() > identify_sent_bytes_max) {
        if (!identify.protocols.empty())
            identify.protocols.pop_back();
        else if (!identify.listen_addresses.empty())
            identify.listen_addresses.pop_back();
        else
            break;
        bytes = wire::encode(identify);
    }
    return bytes;
}

Task<void> serve_identify(std::shared_ptr<transport::Stream> stream,
                          Bytes answer,
                          runtime::Clock* clock) {
    stream->write(wire::with_length_prefix(answer));
    stream->set_deadline(clock->now() + identify_end_pause);
    auto ended = co_await stream->readable();
    if (!ended && ended.error().kind() != ErrorKind::timeout) co_return;
    stream->finish();
}

Task<Result<wire::Identify>> ask_identify(std::shared_ptr<PeerConnection> connection,
                                          TimePoint deadline) {
    auto opened = co_await connection->open_stream(deadline);
    if (!opened) co_return std::move(opened).error();
    const std::unique_ptr<transport::Stream> stream = *std::move(opened);
    stream->set_deadline(deadline);
    stream->propose(std::string(wire::identify_protocol));
    Bytes whole;
    for (std::size_t messages = 0; messages < identify_messages_max; ++messages) {
        auto message = co_await stream->read_prefixed(identify_message_bytes_max);
        if (!message) co_return std::move(message).error();
        if (!*message) break;
        base::append(whole, **message);
        // Nothing follows from us; the other side need not wait before it ends, too.
        stream->finish();
    }
    stream->finish();
    co_return wire::decode<wire::Identify>(whole);
}

std::set<std::string> remembered_protocols(const std::vector<std::string>& told) {
    std::set<std::string> kept;
    std::size_t bytes = 0;
    for (const std::string& protocol : told) {
        bytes += protocol.size();
        if (kept.size() == protocols_per_peer_max || bytes > protocols_bytes_per_peer_max) break;
        kept.insert(protocol);
    }
    return kept;
}

Task<Result<Duration>> ask_ping(std::shared_ptr<PeerConnection> connection,
                                Bytes payload,
                                runtime::Clock* clock,
                                TimePoint deadline) {
    auto opened = co_await connection->open_stream(deadline);
    if (!opened) co_return std::move(opened).error();
    const std::unique_ptr<transport::Stream> stream = *std::move(opened);
    stream->set_deadline(deadline);
    stream->propose(std::string(ping_protocol));
    auto confirmed = co_await stream->confirm();
    if (!confirmed) co_return std::move(confirmed).error();
    const TimePoint begun = clock->now();
    stream->write(payload);
    Bytes echo(payload.size());
    auto filled = co_await stream->read_exactly(echo);
    if (!filled) co_return std::move(filled).error();
    if (!*filled) co_return Error(ErrorKind::peer_gone, "the peer ended the ping");
    const Duration took = clock->now() - begun;
    stream->finish();
    if (echo != payload)
        co_return Error(ErrorKind::peer_broke_protocol, "a ping came back as something else");
    co_return took;
}

Task<void> serve_ping(std::shared_ptr<transport::Stream> stream,
                      runtime::Clock* clock,
                      std::function<void()> on_ping) {
    std::array<std::uint8_t, ping_bytes> payload{};
    for (;;) {
        stream->set_deadline(clock->now() + ping_idle_max);
        auto filled = co_await stream->read_exactly(payload);
        if (!filled) co_return;
        if (!*filled) {
            stream->finish();
            co_return;
        }
        on_ping();
        stream->write(to_bytes(ByteView(payload)));
        auto sent = co_await stream->sent();
        if (!sent) co_return;
    }
}

}  // namespace dedloc::p2p
