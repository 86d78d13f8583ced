#include "dedloc/wire/message.h"

namespace dedloc::wire::detail {
namespace {

Result<ByteView> read_bytes_field(base::ByteReader& reader) {
    DEDLOC_TRY(const std::uint64_t size, read_varint(reader));
    if (size > reader.remaining())
        return make_error(
            ErrorKind::bad_input, "a field of {} bytes, {} left", size, reader.remaining());
    return reader.take(static_cast<std::size_t>(size));
}

Result<std::uint64_t> read_bits(WireType type, base::ByteReader& reader) {
    switch (type) {
        case WireType::fixed64:
            return reader.u64_le();
        case WireType::fixed32: {
            DEDLOC_TRY(const std::uint32_t bits, reader.u32_le());
            return std::uint64_t{bits};
        }
        default:
            return read_varint(reader);
    }
}

Ok skip_field(base::ByteReader& reader, WireType type) {
    switch (type) {
        case WireType::varint:
        case WireType::fixed64:
        case WireType::fixed32: {
            DEDLOC_TRY_VOID(read_bits(type, reader));
            return {};
        }
        case WireType::bytes: {
            DEDLOC_TRY_VOID(read_bytes_field(reader));
            return {};
        }
    }
    return make_error(ErrorKind::bad_input, "unknown wire type {}", static_cast<int>(type));
}

// A value, or nothing and the reason in `status`.
template <typename T>
std::optional<T> value_or_status(Result<T> read, Ok& status) {
    if (read) return *std::move(read);
    status = std::move(read).error();
    return std::nullopt;
}

}  // namespace

void Encoder::put_tag(std::uint32_t number, WireType type) {
    put_varint(out_, (std::uint64_t{number} << 3) | static_cast<std::uint64_t>(type));
}

void Encoder::put_number(WireType type, std::uint64_t bits) {
    switch (type) {
        case WireType::fixed64:
            base::put_u64_le(out_, bits);
            return;
        case WireType::fixed32:
            base::put_u32_le(out_, static_cast<std::uint32_t>(bits));
            return;
        default:
            put_varint(out_, bits);
            return;
    }
}

void Encoder::put_bytes(std::uint32_t number, ByteView bytes) {
    put_tag(number, WireType::bytes);
    put_varint(out_, bytes.size());
    base::append(out_, bytes);
}

void Encoder::put_message(std::uint32_t number, const void* message, Fields fields, bool if_empty) {
    Bytes inner;
    Encoder encoder(inner);
    fields(encoder, message);
    if (if_empty || !inner.empty()) put_bytes(number, inner);
}

bool Decoder::is(WireType type) {
    if (type_ == type) return true;
    status_ = make_error(ErrorKind::bad_input, "field {} has another wire type", number_);
    return false;
}

bool Decoder::has_room(std::size_t elements, std::size_t elements_max) {
    if (elements < elements_max) return true;
    status_ = make_error(
        ErrorKind::bad_input, "field {} has more than {} elements", number_, elements_max);
    return false;
}

std::optional<std::uint64_t> Decoder::read_number(WireType type, base::ByteReader& reader) {
    return value_or_status(read_bits(type, reader), status_);
}

std::optional<ByteView> Decoder::read_bytes() {
    if (!is(WireType::bytes)) return std::nullopt;
    return value_or_status(read_bytes_field(reader_), status_);
}

void Decoder::assign(std::string& value) {
    if (const auto bytes = read_bytes()) value = as_text(*bytes);
}

void Decoder::assign(Bytes& value) {
    if (const auto bytes = read_bytes()) value = to_bytes(*bytes);
}

void Decoder::assign(ByteView& value) {
    if (const auto bytes = read_bytes()) value = *bytes;
}

void Decoder::assign(Digest& value) {
    const auto bytes = read_bytes();
    if (!bytes) return;
    if (const auto digest = value_or_status(Digest::from(*bytes), status_)) value = *digest;
}

void Decoder::assign(PeerId& value) {
    const auto bytes = read_bytes();
    if (!bytes) return;
    if (auto peer = value_or_status(PeerId::from_bytes(*bytes), status_)) value = *std::move(peer);
}

void Decoder::assign_message(void* message, Fields fields) {
    if (const auto bytes = read_bytes()) status_ = decode_fields(*bytes, message, fields);
}

Ok decode_fields(ByteView bytes, void* message, Decoder::Fields fields) {
    base::ByteReader reader(bytes);
    while (!reader.done()) {
        DEDLOC_TRY(const std::uint64_t tag, read_varint(reader));
        const auto type = static_cast<WireType>(tag & 7);
        if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
            return make_error(ErrorKind::bad_input, "field number {} is not allowed", tag >> 3);
        Decoder decoder(static_cast<std::uint32_t>(tag >> 3), type, reader);
        fields(decoder, message);
        if (!decoder.taken())
            DEDLOC_TRY_VOID(skip_field(reader, type));
        else
            DEDLOC_TRY_VOID(std::move(decoder).status());
    }
    return {};
}

}  // namespace dedloc::wire::detail
