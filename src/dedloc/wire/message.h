// Protobuf's wire format from a list of fields: encode(message), decode<Message>(bytes).
//
//   struct Ping {
//       PeerId peer;
//       std::uint64_t step = 0;
//       std::vector<Part> parts;               // Part is a message too
//       DEDLOC_FIELDS(peer, step, (parts, parts_max))   // more elements than that: refused
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

template <Number T>
std::uint64_t to_bits(T value) {
    if constexpr (std::is_enum_v<T>)
        return to_bits(static_cast<std::underlying_type_t<T>>(value));
    else if constexpr (std::signed_integral<T>)
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));  // as protobuf
    else if constexpr (std::same_as<T, double>)
        return std::bit_cast<std::uint64_t>(value);
    else if constexpr (std::same_as<T, float>)
        return std::bit_cast<std::uint32_t>(value);
    else
        return static_cast<std::uint64_t>(value);
}

template <Number T>
T from_bits(std::uint64_t bits) {
    if constexpr (std::same_as<T, bool>)
        return bits != 0;
    else if constexpr (std::is_enum_v<T>)
        return static_cast<T>(static_cast<std::underlying_type_t<T>>(bits));
    else if constexpr (std::same_as<T, double>)
        return std::bit_cast<double>(bits);
    else if constexpr (std::same_as<T, float>)
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    else
        return static_cast<T>(bits);
}

template <typename T>
constexpr WireType wire_type() {
    if constexpr (VarintLike<T>) return WireType::varint;
    if constexpr (std::same_as<T, double>) return WireType::fixed64;
    if constexpr (std::same_as<T, float>) return WireType::fixed32;
    return WireType::bytes;
}

// The part that is made once for every type of message and not for each: the compiler's time is
// ours too.
class Encoder {
  public:
    using Fields = void (*)(Encoder&, const void* message);

    explicit Encoder(Bytes& out) : out_(out) {}

    template <typename T>
    static void fields_of(Encoder& encoder, const void* message) {
        T::fields(encoder, *static_cast<const T*>(message));
    }

    template <typename T>
    void operator()(std::uint32_t number, const std::vector<T>& values, std::size_t = 0) {
        if constexpr (std::same_as<T, std::uint8_t>) {
            if (!values.empty()) put_bytes(number, values);
        } else if constexpr (Number<T>) {
            if (values.empty()) return;
            Bytes packed;
            Encoder elements(packed);
            for (const T value : values) elements.put_number(wire_type<T>(), to_bits(value));
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
        } else if constexpr (Message<T>) {
            put_message(number, &value, &fields_of<T>, /*if_empty=*/false);
        } else {
            const ByteView bytes = bytes_of(value);
            if (!bytes.empty()) put_bytes(number, bytes);
        }
    }

  private:
    static ByteView bytes_of(ByteView value) { return value; }
    static ByteView bytes_of(const std::string& value) { return as_bytes(value); }
    static ByteView bytes_of(const PeerId& value) { return value.bytes(); }
    // All zeros is what was not said.
    static ByteView bytes_of(const Digest& value) {
        return value.is_zero() ? ByteView() : ByteView(value.bytes);
    }

    void put_tag(std::uint32_t number, WireType type);
    void put_number(WireType type, std::uint64_t bits);
    void put_bytes(std::uint32_t number, ByteView bytes);
    void put_message(std::uint32_t number, const void* message, Fields fields, bool if_empty);

    template <typename T>
    void put_value(std::uint32_t number, const T& value) {
        if constexpr (Number<T>) {
            put_tag(number, wire_type<T>());
            put_number(wire_type<T>(), to_bits(value));
        } else if constexpr (Message<T>) {
            put_message(number, &value, &fields_of<T>, /*if_empty=*/true);
        } else if constexpr (std::same_as<T, Digest>) {
            put_bytes(number, value.bytes);
        } else {
            put_bytes(number, bytes_of(value));
        }
    }

    Bytes& out_;
};

// Visits all fields of a message for one field that was read: the one with its number takes it.
class Decoder {
  public:
    using Fields = void (*)(Decoder&, void* message);

    Decoder(std::uint32_t number, WireType type, base::ByteReader& reader)
        : number_(number), type_(type), reader_(reader) {}

    template <typename T>
    static void fields_of(Decoder& decoder, void* message) {
        T::fields(decoder, *static_cast<T*>(message));
    }

    bool taken() const { return taken_; }
    Ok status() && { return std::move(status_); }

    template <typename T>
    void operator()(std::uint32_t number,
                    std::vector<T>& values,
                    std::size_t elements_max = elements_max_default) {
        if (!takes(number)) return;
        if constexpr (std::same_as<T, std::uint8_t>) {
            assign(values);
        } else {
            if constexpr (Number<T>) {
                if (type_ == WireType::bytes) return read_packed(values, elements_max);
            }
            if (!is(wire_type<T>()) || !has_room(values.size(), elements_max)) return;
            T value{};
            assign(value);
            if (status_) values.push_back(std::move(value));
        }
    }

    template <typename T>
    void operator()(std::uint32_t number, std::optional<T>& value, std::size_t = 0) {
        if (takes(number)) assign(value.emplace());
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

    // False says why in status_.
    bool is(WireType type);
    bool has_room(std::size_t elements, std::size_t elements_max);
    std::optional<std::uint64_t> read_number(WireType type, base::ByteReader& reader);
    std::optional<ByteView> read_bytes();

    void assign(std::string& value);
    void assign(Bytes& value);
    void assign(ByteView& value);
    void assign(Digest& value);
    void assign(PeerId& value);
    void assign_message(void* message, Fields fields);

    template <typename T>
    void assign(T& value) {
        if constexpr (Number<T>) {
            if (!is(wire_type<T>())) return;
            if (const auto bits = read_number(wire_type<T>(), reader_)) value = from_bits<T>(*bits);
        } else {
            // Said twice, the last one holds: nothing of the first stays in it.
            T read{};
            assign_message(&read, &fields_of<T>);
            if (status_) value = std::move(read);
        }
    }

    template <Number T>
    void read_packed(std::vector<T>& values, std::size_t elements_max) {
        const auto bytes = read_bytes();
        if (!bytes) return;
        base::ByteReader packed(*bytes);
        while (!packed.done() && has_room(values.size(), elements_max)) {
            const auto bits = read_number(wire_type<T>(), packed);
            if (!bits) return;
            values.push_back(from_bits<T>(*bits));
        }
    }

    std::uint32_t number_;
    WireType type_;
    base::ByteReader& reader_;
    bool taken_ = false;
    Ok status_;
};

Ok decode_fields(ByteView bytes, void* message, Decoder::Fields fields);

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
    T message{};
    DEDLOC_TRY_VOID(detail::decode_fields(bytes, &message, &detail::Decoder::fields_of<T>));
    return message;
}

}  // namespace dedloc::wire
