#include "dedloc/wire/rpc_frames.h"

#include <algorithm>

#include "dedloc/base/fields.h"
#include "dedloc/base/printable.h"

namespace dedloc::wire {
namespace {

constexpr std::size_t record_reserve_max = 64 * 1024;

// proto2 `required`: written also when empty, hence optional.
struct CallUnary {
    std::optional<Bytes> peer;  // overwritten by the responder's daemon: sent empty, not read
    std::optional<std::string> method;
    std::optional<Bytes> data;

    DEDLOC_FIELDS(peer, method, data)
};

struct CallUnaryResponse {
    std::optional<Bytes> response;
    std::optional<Bytes> error;

    DEDLOC_FIELDS(response, error)
};

struct UnaryEnvelope {
    std::optional<Bytes> id;
    std::optional<CallUnary> request;
    std::optional<CallUnaryResponse> response;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.id);
        visit(3, self.request);
        visit(4, self.response);
    }
};

constexpr std::uint8_t tag_of_bytes(std::uint32_t number) {
    return static_cast<std::uint8_t>(number << 3 | 2);
}

std::size_t field_size(std::size_t bytes) { return 1 + varint_size(bytes) + bytes; }

void put_field(Bytes& out, std::uint32_t number, ByteView bytes) {
    out.push_back(tag_of_bytes(number));
    put_varint(out, bytes.size());
    base::append(out, bytes);
}

// length ‖ id ‖ the head of the one nested message, whose fields follow. Written by hand, because
// megabytes of data should be copied once and not once a level of nesting.
Bytes begin_envelope(const CallId& id, std::uint32_t number, std::size_t nested_bytes) {
    const std::size_t size = field_size(id.size()) + field_size(nested_bytes);
    Bytes out;
    out.reserve(varint_bytes_max + size);
    put_varint(out, size);
    put_field(out, 1, id);
    out.push_back(tag_of_bytes(number));
    put_varint(out, nested_bytes);
    return out;
}

Error broken(std::string_view what) {
    return make_error(ErrorKind::peer_broke_protocol, "a unary call {}", what);
}

Result<UnaryEnvelope> decode_envelope(ByteView bytes, CallId& id) {
    auto envelope = decode<UnaryEnvelope>(bytes);
    if (!envelope) return broken(envelope.error().message());
    if (!envelope->id || envelope->id->size() != id.size())
        return broken("has an id that is not of 16 bytes");
    std::copy(envelope->id->begin(), envelope->id->end(), id.begin());
    return envelope;
}

constexpr ErrorKind travelling_kinds[] = {ErrorKind::timeout,
                                          ErrorKind::overloaded,
                                          ErrorKind::peer_gone,
                                          ErrorKind::peer_broke_protocol,
                                          ErrorKind::not_found,
                                          ErrorKind::denied,
                                          ErrorKind::unsupported,
                                          ErrorKind::bad_input,
                                          ErrorKind::conflict};

}  // namespace

Bytes encode_unary_request(const CallId& id, std::string_view method, ByteView data) {
    const std::size_t nested = field_size(0) + field_size(method.size()) + field_size(data.size());
    Bytes out = begin_envelope(id, 3, nested);
    put_field(out, 1, {});
    put_field(out, 2, as_bytes(method));
    put_field(out, 3, data);
    return out;
}

Bytes encode_unary_response(const CallId& id, ByteView data) {
    Bytes out = begin_envelope(id, 4, field_size(data.size()));
    put_field(out, 1, data);
    return out;
}

Bytes encode_unary_error(const CallId& id, std::string_view text) {
    Bytes out = begin_envelope(id, 4, field_size(text.size()));
    put_field(out, 2, as_bytes(text));
    return out;
}

Result<UnaryRequest> decode_unary_request(ByteView bytes) {
    UnaryRequest request;
    DEDLOC_TRY(UnaryEnvelope envelope, decode_envelope(bytes, request.id));
    if (!envelope.request || !envelope.request->method || !envelope.request->data)
        return broken("carries no request");
    if (envelope.request->method->size() > method_bytes_max)
        return broken("names a method of too many letters");
    request.method = std::move(*envelope.request->method);
    request.data = std::move(*envelope.request->data);
    return request;
}

Result<UnaryResponse> decode_unary_response(ByteView bytes) {
    UnaryResponse response;
    DEDLOC_TRY(UnaryEnvelope envelope, decode_envelope(bytes, response.id));
    if (!envelope.response ||
        envelope.response->response.has_value() == envelope.response->error.has_value())
        return broken("was answered with neither a response nor an error, or with both");
    response.response = std::move(envelope.response->response);
    response.error = std::move(envelope.response->error);
    return response;
}

std::string error_to_text(const Error& error) {
    return base::printable(to_string(error), error_text_bytes_max);
}

Error error_from_text(std::string_view text) {
    const std::string clean = base::printable(text, error_text_bytes_max);
    for (const ErrorKind kind : travelling_kinds) {
        const std::string prefix = fmt::format("{}: ", to_string(kind));
        if (clean.starts_with(prefix)) return Error(kind, clean.substr(prefix.size()));
    }
    return make_error(ErrorKind::peer_gone, "the peer could not answer: {}", clean);
}

std::array<std::uint8_t, stream_header_bytes> encode_stream_header(StreamMarker marker,
                                                                   std::uint64_t payload_bytes) {
    std::array<std::uint8_t, stream_header_bytes> header{};
    header[0] = static_cast<std::uint8_t>(marker);
    for (std::size_t i = 0; i < 8; ++i)
        header[1 + i] = static_cast<std::uint8_t>(payload_bytes >> (56 - 8 * i));
    return header;
}

Bytes encode_stream_message(ByteView payload) {
    Bytes out;
    out.reserve(stream_header_bytes + payload.size());
    base::append(out, encode_stream_header(StreamMarker::message, payload.size()));
    base::append(out, payload);
    return out;
}

Bytes encode_stream_error(std::string_view text) {
    RpcError error;
    error.message = std::string(text);
    const Bytes payload = encode(error);
    Bytes out;
    base::append(out, encode_stream_header(StreamMarker::error, payload.size()));
    base::append(out, payload);
    return out;
}

Result<std::string> decode_stream_error(ByteView payload) {
    const auto error = decode<RpcError>(payload);
    if (!error)
        return make_error(
            ErrorKind::peer_broke_protocol, "an error record: {}", error.error().message());
    return error->message;
}

Ok StreamRecordReader::read_header() {
    if (header_[0] > static_cast<std::uint8_t>(StreamMarker::error))
        return make_error(
            ErrorKind::peer_broke_protocol, "a stream record with marker {}", header_[0]);
    base::ByteReader reader(ByteView(header_).subspan(1));
    DEDLOC_TRY(const std::uint64_t size, reader.u64_be());
    if (size > payload_bytes_max_)
        return make_error(ErrorKind::peer_broke_protocol,
                          "a stream record of {} bytes; at most {} are accepted here",
                          size,
                          payload_bytes_max_);
    size_ = static_cast<std::size_t>(size);
    record_.marker = static_cast<StreamMarker>(header_[0]);
    record_.payload.clear();
    record_.payload.reserve(std::min(size_, record_reserve_max));
    return {};
}

Result<std::size_t> StreamRecordReader::feed(ByteView bytes) {
    if (failed_)
        return make_error(ErrorKind::peer_broke_protocol, "the stream was given up before");
    if (complete_) return std::size_t{0};
    std::size_t taken = 0;
    if (header_size_ < stream_header_bytes) {
        taken = std::min(bytes.size(), stream_header_bytes - header_size_);
        std::copy_n(bytes.begin(), taken, header_.begin() + header_size_);
        header_size_ += taken;
        if (header_size_ < stream_header_bytes) return taken;
        if (Ok status = read_header(); !status) {
            failed_ = true;
            return std::move(status).error();
        }
    }
    const std::size_t piece = std::min(bytes.size() - taken, size_ - record_.payload.size());
    base::append(record_.payload, bytes.subspan(taken, piece));
    complete_ = record_.payload.size() == size_;
    return taken + piece;
}

std::optional<StreamRecord> StreamRecordReader::take() {
    if (!complete_) return std::nullopt;
    complete_ = false;
    header_size_ = 0;
    size_ = 0;
    return std::exchange(record_, {});
}

std::size_t StreamRecordReader::wanted() const {
    if (complete_ || failed_) return 0;
    if (header_size_ < stream_header_bytes) return stream_header_bytes - header_size_;
    return size_ - record_.payload.size();
}

}  // namespace dedloc::wire
