#include "dedloc/wire/multiaddr.h"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>

#include "dedloc/base/check.h"
#include "dedloc/wire/varint.h"

namespace dedloc::wire {
namespace {

enum class Kind { none, ip4, ip6, port, name, path, peer, hash };

struct Protocol {
    MultiaddrCode code;
    std::string_view name;
    Kind kind;
};

constexpr Protocol protocols[] = {
    {MultiaddrCode::ip4, "ip4", Kind::ip4},
    {MultiaddrCode::tcp, "tcp", Kind::port},
    {MultiaddrCode::ip6, "ip6", Kind::ip6},
    {MultiaddrCode::ip6zone, "ip6zone", Kind::name},
    {MultiaddrCode::dns, "dns", Kind::name},
    {MultiaddrCode::dns4, "dns4", Kind::name},
    {MultiaddrCode::dns6, "dns6", Kind::name},
    {MultiaddrCode::dnsaddr, "dnsaddr", Kind::name},
    {MultiaddrCode::udp, "udp", Kind::port},
    {MultiaddrCode::webrtc_direct, "webrtc-direct", Kind::none},
    {MultiaddrCode::webrtc, "webrtc", Kind::none},
    {MultiaddrCode::p2p_circuit, "p2p-circuit", Kind::none},
    {MultiaddrCode::unix_path, "unix", Kind::path},
    {MultiaddrCode::p2p, "p2p", Kind::peer},
    {MultiaddrCode::p2p, "ipfs", Kind::peer},  // the old name, read only
    {MultiaddrCode::tls, "tls", Kind::none},
    {MultiaddrCode::sni, "sni", Kind::name},
    {MultiaddrCode::noise, "noise", Kind::none},
    {MultiaddrCode::quic, "quic", Kind::none},
    {MultiaddrCode::quic_v1, "quic-v1", Kind::none},
    {MultiaddrCode::webtransport, "webtransport", Kind::none},
    {MultiaddrCode::certhash, "certhash", Kind::hash},
    {MultiaddrCode::ws, "ws", Kind::none},
    {MultiaddrCode::wss, "wss", Kind::none},
    {MultiaddrCode::http, "http", Kind::none},
};

constexpr std::size_t name_bytes_max = 253;  // of a DNS name
constexpr std::size_t hash_bytes_max = 128;
constexpr std::size_t path_bytes_max = 512;

const Protocol* find_protocol(MultiaddrCode code) {
    const auto* found = std::find_if(std::begin(protocols),
                                     std::end(protocols),
                                     [code](const Protocol& p) { return p.code == code; });
    return found == std::end(protocols) ? nullptr : found;
}

const Protocol* find_protocol(std::string_view name) {
    const auto* found = std::find_if(std::begin(protocols),
                                     std::end(protocols),
                                     [name](const Protocol& p) { return p.name == name; });
    return found == std::end(protocols) ? nullptr : found;
}

const Protocol& protocol_of(const MultiaddrPart& part) {
    const Protocol* protocol = find_protocol(part.code);
    DEDLOC_CHECK(protocol != nullptr);  // only known codes get into an address
    return *protocol;
}

// Sizes of values that have no length in front; nullopt: they have one.
std::optional<std::size_t> fixed_size(Kind kind) {
    switch (kind) {
        case Kind::none:
            return 0;
        case Kind::ip4:
            return 4;
        case Kind::ip6:
            return 16;
        case Kind::port:
            return 2;
        case Kind::name:
        case Kind::path:
        case Kind::peer:
        case Kind::hash:
            return std::nullopt;
    }
    return std::nullopt;
}

bool is_name(ByteView value) {
    return !value.empty() && value.size() <= name_bytes_max &&
           std::all_of(value.begin(), value.end(), [](std::uint8_t letter) {
               return letter > ' ' && letter < 0x7f && letter != '/';
           });
}

bool is_path(ByteView value) {
    return value.size() > 1 && value.size() <= path_bytes_max && value[0] == '/' &&
           std::all_of(value.begin(), value.end(), [](std::uint8_t letter) {
               return letter >= ' ' && letter != 0x7f;
           });
}

bool is_valid(Kind kind, ByteView value) {
    switch (kind) {
        case Kind::name:
            return is_name(value);
        case Kind::path:
            return is_path(value);
        case Kind::peer:
            return PeerId::from_bytes(value).has_value();
        case Kind::hash:
            return !value.empty() && value.size() <= hash_bytes_max;
        default:
            return value.size() == fixed_size(kind);
    }
}

Error bad_value(std::string_view name, std::string_view text) {
    return make_error(ErrorKind::bad_input, "'{}' is not a value for /{}", text, name);
}

Result<Bytes> ip_from_text(int family, std::size_t size, std::string_view text) {
    Bytes value(size);
    if (inet_pton(family, std::string(text).c_str(), value.data()) != 1 ||
        text.find('\0') != std::string_view::npos)
        return make_error(ErrorKind::bad_input, "'{}' is not an IP address", text);
    return value;
}

Result<Bytes> port_from_text(std::string_view text) {
    std::uint16_t port = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (status != std::errc() || end != text.data() + text.size())
        return make_error(ErrorKind::bad_input, "'{}' is not a port (0 to 65535)", text);
    Bytes value;
    base::put_u16_be(value, port);
    return value;
}

Result<Bytes> value_from_text(const Protocol& protocol, std::string_view text) {
    switch (protocol.kind) {
        case Kind::ip4:
            return ip_from_text(AF_INET, 4, text);
        case Kind::ip6:
            return ip_from_text(AF_INET6, 16, text);
        case Kind::port:
            return port_from_text(text);
        case Kind::peer: {
            DEDLOC_TRY(const PeerId peer, PeerId::from_text(text));
            return to_bytes(peer.bytes());
        }
        case Kind::hash:  // multibase; 'u' is base64url
            if (!text.starts_with('u')) return bad_value(protocol.name, text);
            return base::from_base64url(text.substr(1));
        default:
            return to_bytes(text);
    }
}

std::string ip_text(int family, ByteView value) {
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(family, value.data(), text, sizeof text);
    return text;
}

std::uint16_t port_of(const MultiaddrPart& part) {
    return static_cast<std::uint16_t>(part.value[0] << 8 | part.value[1]);
}

std::string value_text(Kind kind, const MultiaddrPart& part) {
    switch (kind) {
        case Kind::none:
            return {};
        case Kind::ip4:
            return ip_text(AF_INET, part.value);
        case Kind::ip6:
            return ip_text(AF_INET6, part.value);
        case Kind::port:
            return fmt::to_string(port_of(part));
        case Kind::peer:
            return PeerId::from_bytes(part.value).value().text();
        case Kind::hash:
            return "u" + base::to_base64url(part.value);
        case Kind::name:
        case Kind::path:
            break;
    }
    return std::string(as_text(part.value));
}

bool is_host(MultiaddrCode code) {
    return code == MultiaddrCode::ip4 || code == MultiaddrCode::ip6 || code == MultiaddrCode::dns ||
           code == MultiaddrCode::dns4 || code == MultiaddrCode::dns6;
}

}  // namespace

Ok Multiaddr::add(MultiaddrPart part) {
    const Protocol& protocol = protocol_of(part);
    if (!is_valid(protocol.kind, part.value))
        return bad_value(protocol.name, base::to_hex(part.value));
    if (parts_.size() >= multiaddr_parts_max)
        return make_error(
            ErrorKind::bad_input, "an address of more than {} parts", multiaddr_parts_max);
    parts_.push_back(std::move(part));
    return {};
}

Result<Multiaddr> Multiaddr::from_text(std::string_view text) {
    if (text.size() > 2 * multiaddr_bytes_max || !text.starts_with('/'))
        return make_error(ErrorKind::bad_input,
                          "'{}' is not a multiaddr; they look like /ip4/10.0.0.1/tcp/4001",
                          text.substr(0, 100));
    Multiaddr address;
    std::string_view rest = text.substr(1);
    if (rest.ends_with('/')) rest.remove_suffix(1);
    const auto next_word = [&rest] {
        const auto slash = std::min(rest.find('/'), rest.size());
        const std::string_view word = rest.substr(0, slash);
        rest.remove_prefix(std::min(slash + 1, rest.size()));
        return word;
    };
    while (!rest.empty()) {
        const std::string_view name = next_word();
        const Protocol* protocol = find_protocol(name);
        if (protocol == nullptr)
            return make_error(ErrorKind::unsupported, "unknown protocol '{}' in '{}'", name, text);
        MultiaddrPart part{protocol->code, {}};
        if (protocol->kind == Kind::path) {
            part.value = to_bytes("/" + std::string(std::exchange(rest, {})));
        } else if (protocol->kind != Kind::none) {
            const std::string_view word = next_word();
            auto value = value_from_text(*protocol, word);
            if (!value) return std::move(value).error().with_context(text);
            part.value = *std::move(value);
        }
        if (Ok added = address.add(std::move(part)); !added)
            return std::move(added).error().with_context(text);
    }
    if (address.is_empty()) return make_error(ErrorKind::bad_input, "the multiaddr is empty");
    return address;
}

Result<Multiaddr> Multiaddr::from_bytes(ByteView bytes) {
    if (bytes.empty() || bytes.size() > multiaddr_bytes_max)
        return make_error(ErrorKind::bad_input, "a multiaddr of {} bytes", bytes.size());
    Multiaddr address;
    base::ByteReader reader(bytes);
    while (!reader.done()) {
        DEDLOC_TRY(const std::uint64_t code, read_varint(reader));
        const auto known = static_cast<MultiaddrCode>(code);
        const Protocol* protocol = code <= 0xffffffff ? find_protocol(known) : nullptr;
        if (protocol == nullptr)
            return make_error(ErrorKind::unsupported, "unknown protocol {} in a multiaddr", code);
        std::uint64_t size = 0;
        if (const auto fixed = fixed_size(protocol->kind)) {
            size = *fixed;
        } else {
            DEDLOC_TRY(size, read_varint(reader));
        }
        if (size > reader.remaining())
            return make_error(ErrorKind::bad_input, "a multiaddr ends inside /{}", protocol->name);
        DEDLOC_TRY(const ByteView value, reader.take(static_cast<std::size_t>(size)));
        DEDLOC_TRY_VOID(address.add({known, to_bytes(value)}));
    }
    return address;
}

Result<Multiaddr> Multiaddr::tcp(std::string_view host, std::uint16_t port) {
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    MultiaddrPart first{MultiaddrCode::dns, to_bytes(host)};
    if (auto ip4 = ip_from_text(AF_INET, 4, host))
        first = {MultiaddrCode::ip4, *std::move(ip4)};
    else if (auto ip6 = ip_from_text(AF_INET6, 16, host))
        first = {MultiaddrCode::ip6, *std::move(ip6)};
    Multiaddr address;
    if (!address.add(std::move(first)))
        return make_error(
            ErrorKind::bad_input, "'{}' is neither an IP address nor a name", host.substr(0, 100));
    MultiaddrPart second{MultiaddrCode::tcp, {}};
    base::put_u16_be(second.value, port);
    DEDLOC_TRY_VOID(address.add(std::move(second)));
    return address;
}

std::string Multiaddr::text() const {
    std::string text;
    for (const MultiaddrPart& part : parts_) {
        const Protocol& protocol = protocol_of(part);
        text += '/';
        text += protocol.name;
        if (protocol.kind == Kind::none) continue;
        if (protocol.kind != Kind::path) text += '/';  // a path brings its own
        text += value_text(protocol.kind, part);
    }
    return text;
}

Bytes Multiaddr::bytes() const {
    Bytes bytes;
    for (const MultiaddrPart& part : parts_) {
        put_varint(bytes, static_cast<std::uint32_t>(part.code));
        if (!fixed_size(protocol_of(part).kind)) put_varint(bytes, part.value.size());
        base::append(bytes, part.value);
    }
    return bytes;
}

std::optional<std::string> Multiaddr::host() const {
    if (parts_.empty() || !is_host(parts_[0].code)) return std::nullopt;
    return value_text(protocol_of(parts_[0]).kind, parts_[0]);
}

std::optional<std::uint16_t> Multiaddr::tcp_port() const {
    for (const MultiaddrPart& part : parts_)
        if (part.code == MultiaddrCode::tcp) return port_of(part);
    return std::nullopt;
}

std::optional<PeerId> Multiaddr::peer() const {
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
        if (part->code == MultiaddrCode::p2p) return PeerId::from_bytes(part->value).value();
        // The id before /p2p-circuit is the relay's, not that of whoever is meant.
        if (part->code == MultiaddrCode::p2p_circuit) return std::nullopt;
    }
    return std::nullopt;
}

bool Multiaddr::is_plain_tcp() const {
    const bool ends_well =
        parts_.size() == 2 || (parts_.size() == 3 && parts_[2].code == MultiaddrCode::p2p);
    return ends_well && is_host(parts_[0].code) && parts_[1].code == MultiaddrCode::tcp;
}

bool Multiaddr::is_relayed() const {
    return std::any_of(parts_.begin(), parts_.end(), [](const MultiaddrPart& part) {
        return part.code == MultiaddrCode::p2p_circuit;
    });
}

std::optional<Multiaddr> Multiaddr::relay() const {
    Multiaddr before;
    for (const MultiaddrPart& part : parts_) {
        if (part.code == MultiaddrCode::p2p_circuit) return before;
        before.parts_.push_back(part);
    }
    return std::nullopt;
}

Multiaddr Multiaddr::without_peer() const {
    Multiaddr address = *this;
    if (!address.parts_.empty() && address.parts_.back().code == MultiaddrCode::p2p)
        address.parts_.pop_back();
    return address;
}

Multiaddr Multiaddr::with_peer(const PeerId& peer) const {
    Multiaddr address = without_peer();
    address.parts_.push_back({MultiaddrCode::p2p, to_bytes(peer.bytes())});
    return address;
}

Multiaddr Multiaddr::circuit_to(const PeerId& peer) const {
    Multiaddr address = *this;
    address.parts_.push_back({MultiaddrCode::p2p_circuit, {}});
    return address.with_peer(peer);
}

std::vector<Multiaddr> known_multiaddrs(const std::vector<Bytes>& addresses) {
    std::vector<Multiaddr> known;
    for (const Bytes& bytes : addresses)
        if (auto address = Multiaddr::from_bytes(bytes)) known.push_back(*std::move(address));
    return known;
}

}  // namespace dedloc::wire
