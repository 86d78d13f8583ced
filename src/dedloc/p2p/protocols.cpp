#include "dedloc/p2p/protocols.h"

#include <array>

namespace dedloc::p2p {

namespace {
constexpr std::size_t ping_bytes = 32;
}

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

Task<Result<wire::Identify>> ask_identify(std::shared_ptr<PeerConnection> connection,
                                          TimePoint deadline) {
    auto opened = co_await connection->open_stream(deadline);
    if (!opened) co_return std::move(opened).error();
    const std::unique_ptr<Stream> stream = *std::move(opened);
    stream->set_deadline(deadline);
    stream->propose(std::string(wire::identify_protocol));
    Bytes whole;
    for (std::size_t messages = 0; messages < identify_messages_max; ++messages) {
        auto message = co_await stream->read_prefixed(identify_message_bytes_max);
        if (!message) co_return std::move(message).error();
        if (!*message) break;
        base::append(whole, **message);
    }
    stream->finish();
    co_return wire::decode<wire::Identify>(whole);
}

Task<void> serve_ping(std::shared_ptr<Stream> stream, runtime::Clock* clock) {
    std::array<std::uint8_t, ping_bytes> payload{};
    for (;;) {
        stream->set_deadline(clock->now() + ping_idle_max);
        auto filled = co_await stream->read_exactly(payload);
        if (!filled) co_return;
        if (!*filled) {
            stream->finish();
            co_return;
        }
        stream->write(to_bytes(ByteView(payload)));
        auto sent = co_await stream->sent();
        if (!sent) co_return;
    }
}

}  // namespace dedloc::p2p
