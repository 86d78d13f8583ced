// Owned and borrowed bytes, hexadecimal text, and a bounds-checked cursor.

#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::base {

using Bytes = std::vector<std::uint8_t>;
using ByteView = std::span<const std::uint8_t>;

inline ByteView as_bytes(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes to_bytes(std::string_view text) { return Bytes(text.begin(), text.end()); }
inline Bytes to_bytes(ByteView bytes) { return Bytes(bytes.begin(), bytes.end()); }
inline void append(Bytes& out, ByteView bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
}
inline bool equal(ByteView a, ByteView b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

std::string to_hex(ByteView bytes);             // lower case
Result<Bytes> from_hex(std::string_view text);  // bad_input on odd length or a foreign letter
std::string to_base64url(ByteView bytes);       // RFC 4648 §5, no padding
Result<Bytes> from_base64url(std::string_view text);

// 32 bytes of SHA-256; the hash itself is security::sha256.
struct Digest {
    std::array<std::uint8_t, 32> bytes{};

    ByteView view() const { return bytes; }
    std::string hex() const { return to_hex(bytes); }
    std::string short_hex() const { return to_hex(ByteView(bytes).first(4)); }  // for people
    bool is_zero() const;
    static Result<Digest> from(ByteView bytes);  // bad_input unless 32 bytes

    friend auto operator<=>(const Digest&, const Digest&) = default;
};

// Reads little pieces from borrowed bytes; every read checks the bound and fails as a value.
class ByteReader {
  public:
    explicit ByteReader(ByteView bytes) : bytes_(bytes) {}

    std::size_t remaining() const { return bytes_.size() - position_; }
    std::size_t position() const { return position_; }
    bool done() const { return remaining() == 0; }
    ByteView rest() const { return bytes_.subspan(position_); }
    Result<ByteView> take(std::size_t count) {
        if (count > remaining()) return too_short(count);
        position_ += count;
        return bytes_.subspan(position_ - count, count);
    }
    Result<std::uint8_t> u8();
    Result<std::uint16_t> u16_be();
    Result<std::uint32_t> u32_be();
    Result<std::uint64_t> u64_be();
    Result<std::uint32_t> u32_le();
    Result<std::uint64_t> u64_le();

  private:
    Error too_short(std::size_t count) const;

    ByteView bytes_;
    std::size_t position_ = 0;
};

void put_u16_be(Bytes& out, std::uint16_t value);
void put_u32_be(Bytes& out, std::uint32_t value);
void put_u64_be(Bytes& out, std::uint64_t value);
void put_u32_le(Bytes& out, std::uint32_t value);
void put_u64_le(Bytes& out, std::uint64_t value);

}  // namespace dedloc::base

namespace dedloc {
using base::as_bytes;
using base::as_text;
using base::Bytes;
using base::ByteView;
using base::Digest;
using base::to_bytes;
}  // namespace dedloc

template <>
struct std::hash<dedloc::base::Digest> {
    std::size_t operator()(const dedloc::base::Digest& digest) const noexcept {
        std::size_t word = 0;
        std::memcpy(&word, digest.bytes.data(), sizeof word);
        return word;
    }
};
