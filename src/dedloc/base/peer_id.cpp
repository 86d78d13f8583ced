#include "dedloc/base/peer_id.h"

#include <algorithm>

namespace dedloc::base {
namespace {

constexpr std::string_view base58_letters =
    "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
constexpr std::size_t base58_letters_max = 128;
constexpr std::uint8_t multihash_identity = 0x00;
constexpr std::uint8_t multihash_sha256 = 0x12;

Result<Bytes> from_base32(std::string_view text) {
    Bytes bytes;
    std::uint32_t buffer = 0;
    int bits = 0;
    for (const char letter : text) {
        std::uint32_t value = 0;
        if (letter >= 'a' && letter <= 'z')
            value = static_cast<std::uint32_t>(letter - 'a');
        else if (letter >= '2' && letter <= '7')
            value = static_cast<std::uint32_t>(letter - '2' + 26);
        else
            return make_error(ErrorKind::bad_input, "'{}' is not a base32 letter", letter);
        buffer = (buffer << 5) | value;
        bits += 5;
        if (bits >= 8) {
            bits -= 8;
            bytes.push_back(static_cast<std::uint8_t>(buffer >> bits));
        }
    }
    return bytes;
}

}  // namespace

std::string to_base58(ByteView bytes) {
    const auto zeros = static_cast<std::size_t>(
        std::find_if(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b != 0; }) -
        bytes.begin());
    std::vector<std::uint8_t> digits;  // base 58, least significant first
    for (const std::uint8_t byte : bytes.subspan(zeros)) {
        std::uint32_t carry = byte;
        for (std::uint8_t& digit : digits) {
            carry += static_cast<std::uint32_t>(digit) << 8;
            digit = static_cast<std::uint8_t>(carry % 58);
            carry /= 58;
        }
        for (; carry > 0; carry /= 58) digits.push_back(static_cast<std::uint8_t>(carry % 58));
    }
    std::string text(zeros, '1');
    for (std::size_t i = digits.size(); i-- > 0;) text.push_back(base58_letters[digits[i]]);
    return text;
}

Result<Bytes> from_base58(std::string_view text) {
    if (text.size() > base58_letters_max)
        return make_error(
            ErrorKind::bad_input, "base58 text of {} letters is too long", text.size());
    const auto zeros = static_cast<std::size_t>(
        std::find_if(text.begin(), text.end(), [](char c) { return c != '1'; }) - text.begin());
    std::vector<std::uint8_t> digits;  // base 256, least significant first
    for (const char letter : text.substr(zeros)) {
        const auto index = base58_letters.find(letter);
        if (index == std::string_view::npos)
            return make_error(ErrorKind::bad_input, "'{}' is not a base58 letter", letter);
        auto carry = static_cast<std::uint32_t>(index);
        for (std::uint8_t& digit : digits) {
            carry += static_cast<std::uint32_t>(digit) * 58;
            digit = static_cast<std::uint8_t>(carry);
            carry >>= 8;
        }
        for (; carry > 0; carry >>= 8) digits.push_back(static_cast<std::uint8_t>(carry));
    }
    Bytes bytes(zeros, 0);
    bytes.insert(bytes.end(), digits.rbegin(), digits.rend());
    return bytes;
}

Result<PeerId> PeerId::from_bytes(ByteView multihash) {
    const bool well_formed = multihash.size() >= 3 && multihash.size() <= peer_id_bytes_max &&
                             multihash[1] == multihash.size() - 2 &&
                             ((multihash[0] == multihash_identity && multihash[1] <= 42) ||
                              (multihash[0] == multihash_sha256 && multihash[1] == 32));
    if (!well_formed)
        return make_error(ErrorKind::bad_input,
                          "'{}' is not a peer id's multihash",
                          to_hex(multihash.first(std::min<std::size_t>(multihash.size(), 80))));
    PeerId id;
    id.multihash_ = std::string(as_text(multihash));
    return id;
}

Result<PeerId> PeerId::from_text(std::string_view text) {
    if (text.size() > base58_letters_max)
        return make_error(ErrorKind::bad_input, "a peer id has at most 128 letters");
    if (text.starts_with("b") && text.size() > 50) {  // CIDv1, base32, codec libp2p-key (0x72)
        DEDLOC_TRY(const Bytes cid, from_base32(text.substr(1)));
        if (cid.size() < 3 || cid[0] != 1 || cid[1] != 0x72)
            return make_error(ErrorKind::bad_input, "'{}' is not a libp2p key's CID", text);
        return from_bytes(ByteView(cid).subspan(2));
    }
    DEDLOC_TRY(const Bytes multihash, from_base58(text));
    return from_bytes(multihash);
}

std::string PeerId::short_text() const {
    if (is_empty()) return "-";
    const std::string whole = text();
    return whole.substr(whole.size() - std::min<std::size_t>(6, whole.size()));
}

}  // namespace dedloc::base
