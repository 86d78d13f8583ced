#include "dedloc/base/bytes.h"

#include <algorithm>

namespace dedloc::base {
namespace {

int hex_digit(char letter) {
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
    return -1;
}

constexpr std::string_view base64url_letters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

template <typename Integer>
void put_be(Bytes& out, Integer value) {
    for (int shift = static_cast<int>(sizeof(Integer)) * 8 - 8; shift >= 0; shift -= 8)
        out.push_back(static_cast<std::uint8_t>(value >> shift));
}

template <typename Integer>
void put_le(Bytes& out, Integer value) {
    for (std::size_t shift = 0; shift < sizeof(Integer) * 8; shift += 8)
        out.push_back(static_cast<std::uint8_t>(value >> shift));
}

template <typename Integer>
Integer load_be(ByteView bytes) {
    Integer value = 0;
    for (const std::uint8_t byte : bytes) value = static_cast<Integer>((value << 8) | byte);
    return value;
}

template <typename Integer>
Integer load_le(ByteView bytes) {
    Integer value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;)
        value = static_cast<Integer>((value << 8) | bytes[i]);
    return value;
}

}  // namespace

std::string to_hex(ByteView bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const std::uint8_t byte : bytes) {
        text.push_back(digits[byte >> 4]);
        text.push_back(digits[byte & 15]);
    }
    return text;
}

Result<Bytes> from_hex(std::string_view text) {
    if (text.size() % 2 != 0)
        return make_error(ErrorKind::bad_input, "hexadecimal text has an odd length");
    Bytes bytes;
    bytes.reserve(text.size() / 2);
    for (std::size_t i = 0; i < text.size(); i += 2) {
        const int high = hex_digit(text[i]);
        const int low = hex_digit(text[i + 1]);
        if (high < 0 || low < 0)
            return make_error(ErrorKind::bad_input, "'{}' is not hexadecimal", text.substr(i, 2));
        bytes.push_back(static_cast<std::uint8_t>(high * 16 + low));
    }
    return bytes;
}

std::string to_base64url(ByteView bytes) {
    std::string text;
    text.reserve((bytes.size() * 4 + 2) / 3);
    std::uint32_t buffer = 0;
    int bits = 0;
    for (const std::uint8_t byte : bytes) {
        buffer = (buffer << 8) | byte;
        bits += 8;
        while (bits >= 6) {
            bits -= 6;
            text.push_back(base64url_letters[(buffer >> bits) & 63]);
        }
    }
    if (bits > 0) text.push_back(base64url_letters[(buffer << (6 - bits)) & 63]);
    return text;
}

Result<Bytes> from_base64url(std::string_view text) {
    if (text.size() % 4 == 1)
        return make_error(ErrorKind::bad_input, "base64url text has an impossible length");
    Bytes bytes;
    bytes.reserve(text.size() * 3 / 4);
    std::uint32_t buffer = 0;
    int bits = 0;
    for (const char letter : text) {
        const auto index = base64url_letters.find(letter);
        if (index == std::string_view::npos)
            return make_error(ErrorKind::bad_input, "'{}' is not a base64url letter", letter);
        buffer = (buffer << 6) | static_cast<std::uint32_t>(index);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes.push_back(static_cast<std::uint8_t>(buffer >> bits));
        }
    }
    if ((buffer & ((1u << bits) - 1)) != 0)
        return make_error(ErrorKind::bad_input, "base64url text ends in stray bits");
    return bytes;
}

bool Digest::is_zero() const {
    return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

Result<Digest> Digest::from(ByteView bytes) {
    Digest digest;
    if (bytes.size() != digest.bytes.size())
        return make_error(
            ErrorKind::bad_input, "a digest has 32 bytes, these are {}", bytes.size());
    std::copy(bytes.begin(), bytes.end(), digest.bytes.begin());
    return digest;
}

Error ByteReader::too_short(std::size_t count) const {
    return make_error(ErrorKind::bad_input, "{} bytes wanted, {} left", count, remaining());
}

Result<std::uint8_t> ByteReader::u8() {
    DEDLOC_TRY(const ByteView bytes, take(1));
    return bytes[0];
}
Result<std::uint16_t> ByteReader::u16_be() {
    DEDLOC_TRY(const ByteView bytes, take(2));
    return load_be<std::uint16_t>(bytes);
}
Result<std::uint32_t> ByteReader::u32_be() {
    DEDLOC_TRY(const ByteView bytes, take(4));
    return load_be<std::uint32_t>(bytes);
}
Result<std::uint64_t> ByteReader::u64_be() {
    DEDLOC_TRY(const ByteView bytes, take(8));
    return load_be<std::uint64_t>(bytes);
}
Result<std::uint32_t> ByteReader::u32_le() {
    DEDLOC_TRY(const ByteView bytes, take(4));
    return load_le<std::uint32_t>(bytes);
}
Result<std::uint64_t> ByteReader::u64_le() {
    DEDLOC_TRY(const ByteView bytes, take(8));
    return load_le<std::uint64_t>(bytes);
}

void put_u16_be(Bytes& out, std::uint16_t value) { put_be(out, value); }
void put_u32_be(Bytes& out, std::uint32_t value) { put_be(out, value); }
void put_u64_be(Bytes& out, std::uint64_t value) { put_be(out, value); }
void put_u32_le(Bytes& out, std::uint32_t value) { put_le(out, value); }
void put_u64_le(Bytes& out, std::uint64_t value) { put_le(out, value); }

}  // namespace dedloc::base
