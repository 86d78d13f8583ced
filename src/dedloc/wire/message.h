// Protobuf's wire format from a list of fields: encode(message), decode<Message>(bytes).
//
//   struct Ping {
//       PeerId peer;
//       std::uint64_t step = 0;
//       std::vector<Part> parts;               // Part is a message too
//       template <typename Visitor, typename Self>
//       static void fields(Visitor& visit, Self& self) {
//           visit(1, self.peer);
//           visit(2, self.step);
//           visit(3, self.parts, parts_max);   // more elements than that: refused
//       }
//   };
//
// Why not protoc: the bytes of signed messages must be canonical, counts must be bounded where
// they are declared, and no header of a generator may reach the rest of the house
// (docs/decisions/0002). Field numbers, types and defaults are proto3's: a field that equals its
// default is not written; std::optional fields are written whenever they hold a value, which is
// also how proto2's `required` is said. Unknown fields are skipped. A member's initialiser must be
// zero or empty: what is not on the wire stays as it was made.
//
// Types: bool, enums, (u)int32/64 (varint), double, float (fixed), std::string, Bytes, Digest,
// PeerId, messages, std::vector of these (numbers packed; both forms read), std::optional; and
// ByteView, which after decode() shows a piece of the decoded bytes: keep those.
//
// Errors: bad_input. Cost: linear; memory at most elements_max × sizeof(element) a field.
// Thread: any.

#pragma once
#include <bit>
#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/wire/varint.h"

namespace dedloc::wire {

inline constexpr std::size_t elements_max_default = 4096;

namespace detail {

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct NullVisitor {
    template <typename T>
    void operator()(std::uint32_t, T&, std::size_t = 0) {}
};

template <typename T>
concept Message = requires(T& value, NullVisitor& visitor) {
    T::fields(visitor, value);
};

template <typename T>
concept VarintLike = std::integral<T> || std::is_enum_v<T>;

template <typename T>
concept Number = VarintLike<T> || std::floating_point<T>;

template <typename T>
std::uint64_t to_varint(T value) {
    if constexpr (std::is_enum_v<T>)
        return to_varint(static_cast<std::underlying_type_t<T>>(value));
    else if constexpr (std::signed_integral<T>)
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));  // as protobuf
    else
        return static_cast<std::uint64_t>(value);
}

template <typename T>
T from_varint(std::uint64_t value) {
    if constexpr (std::same_as<T, bool>)
        return value != 0;
    else if constexpr (std::is_enum_v<T>)
        return static_cast<T>(static_cast<std::underlying_type_t<T>>(value));
    else
        return static_cast<T>(value);
}

template <typename T>
constexpr WireType wire_type() {
    if constexpr (VarintLike<T>) return WireType::varint;
    if constexpr (std::same_as<T, double>) return WireType::fixed64;
    if constexpr (std::same_as<T, float>) return WireType::fixed32;
    return WireType::bytes;
}

template <Number T>
void put_number(Bytes& out, T value) {
    if constexpr (VarintLike<T>)
        put_varint(out, to_varint(value));
    else if constexpr (std::same_as<T, double>)
        base::put_u64_le(out, std::bit_cast<std::uint64_t>(value));
    else
        base::put_u32_le(out, std::bit_cast<std::uint32_t>(value));
}

template <Number T>
Result<T> read_number(base::ByteReader& reader) {
    if constexpr (VarintLike<T>) {
        DEDLOC_TRY(const std::uint64_t value, read_varint(reader));
        return from_varint<T>(value);
    } else if constexpr (std::same_as<T, double>) {
        DEDLOC_TRY(const std::uint64_t value, reader.u64_le());
        return std::bit_cast<double>(value);
    } else {
        DEDLOC_TRY(const std::uint32_t value, reader.u32_le());
        return std::bit_cast<float>(value);
    }
}

Result<ByteView> read_bytes(base::ByteReader& reader);
Ok skip_field(base::ByteReader& reader, WireType type);
Error too_many(std::uint32_t number, std::size_t elements_max);
Error wrong_type(std::uint32_t number);

class Encoder {
  public:
    explicit Encoder(Bytes& out) : out_(out) {}

    template <typename T>
    void operator()(std::uint32_t number, const std::vector<T>& values, std::size_t = 0) {
        if constexpr (std::same_as<T, std::uint8_t>) {
            if (!values.empty()) put_bytes(number, values);
        } else if constexpr (Number<T>) {
            if (values.empty()) return;
            Bytes packed;
            for (const T value : values) put_number(packed, value);
            put_bytes(number, packed);
        } else {
            for (const T& value : values) put_value(number, value);
        }
    }

    template <typename T>
    void operator()(std::uint32_t number, const std::optional<T>& value, std::size_t = 0) {
        if (value) put_value(number, *value);
    }

    template <typename T>
    void operator()(std::uint32_t number, const T& value, std::size_t = 0) {
        if constexpr (Number<T>) {
            if (to_bits(value) != 0) put_value(number, value);
        } else if constexpr (std::same_as<T, std::string>) {
            if (!value.empty()) put_bytes(number, as_bytes(value));
        } else if constexpr (std::same_as<T, Digest>) {
            if (!value.is_zero()) put_bytes(number, value.bytes);
        } else if constexpr (std::same_as<T, PeerId>) {
            if (!value.is_empty()) put_bytes(number, value.bytes());
        } else if constexpr (std::same_as<T, ByteView>) {
            if (!value.empty()) put_bytes(number, value);
        } else {
            Bytes inner;
            Encoder encoder(inner);
            T::fields(encoder, value);
            if (!inner.empty()) put_bytes(number, inner);
        }
    }

  private:
    template <Number T>
    static std::uint64_t to_bits(T value) {
        if constexpr (VarintLike<T>)
            return to_varint(value);
        else if constexpr (std::same_as<T, double>)
            return std::bit_cast<std::uint64_t>(value);
        else
            return std::bit_cast<std::uint32_t>(value);
    }

    void put_tag(std::uint32_t number, WireType type) {
        put_varint(out_, (std::uint64_t{number} << 3) | static_cast<std::uint64_t>(type));
    }
    void put_bytes(std::uint32_t number, ByteView bytes) {
        put_tag(number, WireType::bytes);
        put_varint(out_, bytes.size());
        base::append(out_, bytes);
    }

    template <typename T>
    void put_value(std::uint32_t number, const T& value) {
        if constexpr (Number<T>) {
            put_tag(number, wire_type<T>());
            put_number(out_, value);
        } else if constexpr (std::same_as<T, std::string>) {
            put_bytes(number, as_bytes(value));
        } else if constexpr (std::same_as<T, Bytes>) {
            put_bytes(number, value);
        } else if constexpr (std::same_as<T, Digest>) {
            put_bytes(number, value.bytes);
        } else if constexpr (std::same_as<T, PeerId>) {
            put_bytes(number, value.bytes());
        } else {
            Bytes inner;
            Encoder encoder(inner);
            T::fields(encoder, value);
            put_bytes(number, inner);
        }
    }

    Bytes& out_;
};

template <typename T>
Result<T> decode_message(ByteView bytes);

template <typename T>
Result<T> read_value(base::ByteReader& reader) {
    if constexpr (Number<T>) {
        return read_number<T>(reader);
    } else {
        DEDLOC_TRY(const ByteView bytes, read_bytes(reader));
        if constexpr (std::same_as<T, std::string>) {
            return std::string(as_text(bytes));
        } else if constexpr (std::same_as<T, Bytes>) {
            return to_bytes(bytes);
        } else if constexpr (std::same_as<T, ByteView>) {
            return bytes;
        } else if constexpr (std::same_as<T, Digest>) {
            return Digest::from(bytes);
        } else if constexpr (std::same_as<T, PeerId>) {
            return PeerId::from_bytes(bytes);
        } else {
            return decode_message<T>(bytes);
        }
    }
}

// Visits all fields of a message for one field that was read: the one with its number takes it.
class Decoder {
  public:
    Decoder(std::uint32_t number, WireType type, base::ByteReader& reader)
        : number_(number), type_(type), reader_(reader) {}

    bool taken() const { return taken_; }
    Ok status() && { return std::move(status_); }

    template <typename T>
    void operator()(std::uint32_t number,
                    std::vector<T>& values,
                    std::size_t elements_max = elements_max_default) {
        if (!takes(number)) return;
        if constexpr (std::same_as<T, std::uint8_t>) {
            assign(values);
        } else if constexpr (Number<T>) {
            if (type_ == WireType::bytes)
                status_ = read_packed(values, elements_max);
            else
                status_ = push_back(values, elements_max);
        } else {
            status_ = push_back(values, elements_max);
        }
    }

    template <typename T>
    void operator()(std::uint32_t number, std::optional<T>& value, std::size_t = 0) {
        if (!takes(number)) return;
        value.emplace();
        assign(*value);
    }

    template <typename T>
    void operator()(std::uint32_t number, T& value, std::size_t = 0) {
        if (takes(number)) assign(value);
    }

  private:
    bool takes(std::uint32_t number) {
        if (number != number_ || taken_) return false;
        taken_ = true;
        return true;
    }

    template <typename T>
    void assign(T& value) {
        if (type_ != wire_type<T>()) {
            status_ = wrong_type(number_);
            return;
        }
        auto read = read_value<T>(reader_);
        if (read)
            value = *std::move(read);
        else
            status_ = std::move(read).error();
    }

    template <typename T>
    Ok push_back(std::vector<T>& values, std::size_t elements_max) {
        if (type_ != wire_type<T>()) return wrong_type(number_);
        if (values.size() >= elements_max) return too_many(number_, elements_max);
        DEDLOC_TRY(T value, read_value<T>(reader_));
        values.push_back(std::move(value));
        return {};
    }

    template <typename T>
    Ok read_packed(std::vector<T>& values, std::size_t elements_max) {
        DEDLOC_TRY(const ByteView bytes, read_bytes(reader_));
        base::ByteReader packed(bytes);
        while (!packed.done()) {
            if (values.size() >= elements_max) return too_many(number_, elements_max);
            DEDLOC_TRY(const T value, read_number<T>(packed));
            values.push_back(value);
        }
        return {};
    }

    std::uint32_t number_;
    WireType type_;
    base::ByteReader& reader_;
    bool taken_ = false;
    Ok status_;
};

template <typename T>
Result<T> decode_message(ByteView bytes) {
    T message{};
    base::ByteReader reader(bytes);
    while (!reader.done()) {
        DEDLOC_TRY(const std::uint64_t tag, read_varint(reader));
        const auto type = static_cast<WireType>(tag & 7);
        if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
            return make_error(ErrorKind::bad_input, "field number {} is not allowed", tag >> 3);
        Decoder decoder(static_cast<std::uint32_t>(tag >> 3), type, reader);
        T::fields(decoder, message);
        if (!decoder.taken())
            DEDLOC_TRY_VOID(skip_field(reader, type));
        else
            DEDLOC_TRY_VOID(std::move(decoder).status());
    }
    return message;
}

}  // namespace detail

template <typename T>
Bytes encode(const T& message) {
    Bytes out;
    detail::Encoder encoder(out);
    T::fields(encoder, message);
    return out;
}

// The beginning of a message whose last field, `number`, is `size` bytes that follow it: what is
// large need not be copied into the message. That field of `message` is empty.
template <typename T>
Bytes encode_before_body(const T& message, std::uint32_t number, std::size_t size) {
    Bytes out = encode(message);
    if (size == 0) return out;
    put_varint(out, (std::uint64_t{number} << 3) | std::uint64_t{2});
    put_varint(out, size);
    return out;
}

template <typename T>
Result<T> decode(ByteView bytes) {
    return detail::decode_message<T>(bytes);
}

}  // namespace dedloc::wire
