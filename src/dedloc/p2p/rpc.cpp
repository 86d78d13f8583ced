#include "dedloc/p2p/rpc.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dedloc/p2p/limits.h"

namespace dedloc::p2p {

namespace {

class RpcMessageStream final : public MessageStream {
  public:
    RpcMessageStream(std::shared_ptr<transport::Stream> stream, std::shared_ptr<MethodFacts> facts)
        : stream_(std::move(stream)), facts_(std::move(facts)) {}
    ~RpcMessageStream() override {
        stream_->unwatch();
        // Both sides are done: no need to frighten the other with a reset.
        if (!stream_->is_inbound() && stream_->at_end()) stream_->finish();
        if (!stream_->finished()) stream_->reset();
    }

    const PeerId& remote() const override { return stream_->remote(); }

    Task<Result<void>> write(Bytes message) override {
        return write_with_body(std::move(message), SharedBytes());
    }

    Task<Result<void>> write_with_body(Bytes head, SharedBytes body) override {
        if (ended_) co_return Error(ErrorKind::bad_input, "a message after finish()");
        const std::size_t size = head.size() + body->size();
        if (size > message_bytes_max)
            co_return make_error(ErrorKind::bad_input,
                                 "a message of {} bytes; the limit is {}",
                                 size,
                                 message_bytes_max);
        learn(size);
        const auto header = wire::encode_stream_header(wire::StreamMarker::message, size);
        stream_->write(to_bytes(ByteView(header)));
        stream_->write(std::move(head));
        if (body) stream_->write(std::move(body));
        auto sent = co_await stream_->sent();
        co_return sent;
    }

    Task<Result<std::optional<SharedBytes>>> read() override {
        if (input_ended_) co_return std::optional<SharedBytes>();
        std::array<std::uint8_t, wire::stream_header_bytes> header{};
        auto filled = co_await stream_->read_exactly(header);
        if (!filled) co_return std::move(filled).error();
        if (!*filled) co_return ended();
        auto parsed = parse(header);
        if (!parsed) co_return fail_protocol(std::move(parsed).error());
        learn(parsed->second);
        auto payload = co_await read_payload(parsed->second);
        if (!payload) co_return std::move(payload).error();
        if (parsed->first == wire::StreamMarker::message)
            co_return std::optional<SharedBytes>(*std::move(payload));
        co_return take_error(*payload);
    }

    Task<Result<void>> finish() override {
        if (std::exchange(ended_, true)) co_return Ok();
        if (!stream_->is_inbound()) stream_->write(wire::encode_stream_end());
        auto sent = co_await stream_->sent();
        if (stream_->is_inbound()) stream_->finish();
        co_return sent;
    }

    Task<Result<void>> fail(Error error) override {
        if (std::exchange(ended_, true)) co_return Ok();
        stream_->write(wire::encode_stream_error(wire::error_to_text(error)));
        if (stream_->is_inbound()) stream_->finish();
        auto sent = co_await stream_->sent();
        co_return sent;
    }

    void reset() override { stream_->reset(); }

  private:
    using Header = std::pair<wire::StreamMarker, std::size_t>;

    void learn(std::size_t bytes) {
        moved_ += bytes;
        if (facts_ && moved_ >= transport::bulk_stream_bytes_min) facts_->is_bulk = true;
    }

    static Result<Header> parse(ByteView bytes) {
        base::ByteReader reader(bytes);
        const std::uint8_t marker = *reader.u8();
        const std::uint64_t size = *reader.u64_be();
        if (marker > 1)
            return make_error(ErrorKind::peer_broke_protocol, "a record of kind {}", marker);
        const std::size_t size_max = marker == 0 ? message_bytes_max : 2 * error_text_bytes_max;
        if (size > size_max)
            return make_error(
                ErrorKind::peer_broke_protocol, "a record of {} bytes, limit {}", size, size_max);
        return Header(static_cast<wire::StreamMarker>(marker), static_cast<std::size_t>(size));
    }

    // The memory is not touched before its bytes come, so a claimed length costs address space
    // only.
    Task<Result<SharedBytes>> read_payload(std::size_t size) {
        auto memory = SharedBytes::for_overwrite(size);
        auto read = co_await stream_->read_exactly(memory.second);
        if (!read) co_return std::move(read).error();
        if (!*read) co_return Error(ErrorKind::peer_gone, "the stream ended inside a message");
        co_return std::move(memory.first);
    }

    Result<std::optional<SharedBytes>> ended() {
        if (stream_->is_inbound())
            return Error(ErrorKind::peer_gone, "the caller closed the stream");
        input_ended_ = true;
        return std::optional<SharedBytes>();
    }

    Result<std::optional<SharedBytes>> take_error(ByteView payload) {
        auto text = wire::decode_stream_error(payload);
        if (!text) return fail_protocol(std::move(text).error());
        input_ended_ = true;
        if (text->empty() && stream_->is_inbound()) return std::optional<SharedBytes>();
        return wire::error_from_text(*text);
    }

    Error fail_protocol(Error error) {
        stream_->reset();
        return error;
    }

    std::shared_ptr<transport::Stream> stream_;
    std::shared_ptr<MethodFacts> facts_;
    std::uint64_t moved_ = 0;
    bool ended_ = false;
    bool input_ended_ = false;
};

}  // namespace

Result<Bytes> encode_call(const wire::CallId& id, const std::string& method, ByteView request) {
    if (request.size() <= call_bytes_max) {
        Bytes bytes = wire::encode_unary_request(id, method, request);
        if (bytes.size() <= wire::unary_envelope_bytes_max) return bytes;
    }
    return make_error(ErrorKind::bad_input,
                      "a request of {} bytes; the limit is {}",
                      request.size(),
                      call_bytes_max);
}

Task<Result<Bytes>> finish_call(std::unique_ptr<transport::Stream> stream,
                                wire::CallId id,
                                Bytes request) {
    stream->write(std::move(request));
    auto envelope = co_await stream->read_prefixed(wire::unary_envelope_bytes_max);
    if (!envelope) co_return std::move(envelope).error();
    if (!*envelope)
        co_return make_error(ErrorKind::peer_gone,
                             "peer {} ended the call without an answer",
                             stream->remote().short_text());
    auto answer = wire::decode_unary_response(**envelope);
    if (!answer) co_return std::move(answer).error();
    if (answer->id != id)
        co_return Error(ErrorKind::peer_broke_protocol, "an answer to another call");
    stream->finish();
    if (answer->error) co_return wire::error_from_text(as_text(*answer->error));
    co_return *std::move(answer->response);
}

Task<Result<wire::UnaryRequest>> read_call(transport::Stream& stream) {
    auto envelope = co_await stream.read_prefixed(wire::unary_envelope_bytes_max);
    if (!envelope) co_return std::move(envelope).error();
    if (!*envelope) co_return Error(ErrorKind::peer_gone, "the caller closed the stream");
    auto request = wire::decode_unary_request(**envelope);
    co_return request;
}

Bytes encode_answer(const wire::CallId& id, const Result<Bytes>& answer) {
    if (answer) {
        Bytes bytes = wire::encode_unary_response(id, *answer);
        if (bytes.size() <= wire::unary_envelope_bytes_max) return bytes;
        const Error error(ErrorKind::local_fault, "the answer is larger than a call may carry");
        return wire::encode_unary_error(id, wire::error_to_text(error));
    }
    return wire::encode_unary_error(id, wire::error_to_text(answer.error()));
}

std::unique_ptr<MessageStream> make_message_stream(std::shared_ptr<transport::Stream> stream,
                                                   std::shared_ptr<MethodFacts> facts) {
    return std::make_unique<RpcMessageStream>(std::move(stream), std::move(facts));
}

}  // namespace dedloc::p2p
