#include "dedloc/p2p/relay_stream.h"

#include <utility>

#include "dedloc/wire/relay_messages.h"

namespace dedloc::p2p {

namespace {

Task<Result<std::size_t>> read_from(std::shared_ptr<transport::Stream> stream,
                                    std::span<std::uint8_t> into) {
    auto ready = co_await stream->readable();
    if (!ready) co_return std::move(ready).error();
    co_return stream->read_some(into);  // 0: the other side has ended
}

Task<Result<void>> write_to(std::shared_ptr<transport::Stream> stream, ByteView bytes) {
    stream->write(to_bytes(bytes));
    auto sent = co_await stream->sent();
    co_return sent;
}

class RelayedBytes final : public runtime::Connection {
  public:
    RelayedBytes(std::shared_ptr<transport::Stream> stream, const PeerId& peer, const PeerId& relay)
        : stream_(std::move(stream)),
          remote_{.host =
                      fmt::format("{} through relay {}", peer.short_text(), relay.short_text())},
          local_{.host = "relay " + relay.short_text()} {
        stream_->set_deadline(TimePoint::never());
    }
    ~RelayedBytes() override { close(); }

    Task<Result<std::size_t>> read_some(std::span<std::uint8_t> into) override {
        return read_from(stream_, into);
    }
    Task<Result<void>> write(ByteView bytes) override { return write_to(stream_, bytes); }
    void close() override { stream_->reset(); }
    runtime::SocketAddress local() const override { return local_; }
    runtime::SocketAddress remote() const override { return remote_; }

  private:
    std::shared_ptr<transport::Stream> stream_;
    runtime::SocketAddress remote_;
    runtime::SocketAddress local_;
};

}  // namespace

std::unique_ptr<runtime::Connection> make_relayed_bytes(std::shared_ptr<transport::Stream> stream,
                                                        const PeerId& peer,
                                                        const PeerId& relay) {
    return std::make_unique<RelayedBytes>(std::move(stream), peer, relay);
}

Task<Result<Bytes>> read_relay_message(transport::Stream& stream) {
    auto message = co_await stream.read_prefixed(wire::relay_message_bytes_max);
    if (!message) co_return std::move(message).error();
    if (!*message)
        co_return Error(ErrorKind::peer_broke_protocol, "the stream ended without a message");
    co_return **std::move(message);
}

}  // namespace dedloc::p2p
