#include "dedloc/p2p/nat.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "dedloc/wire/multiaddr.h"

namespace dedloc::p2p {

namespace {

struct Block4 {
    std::uint32_t network;
    int bits;
};

constexpr std::uint32_t ip4(unsigned a, unsigned b, unsigned c, unsigned d) {
    return a << 24 | b << 16 | c << 8 | d;
}

// IANA's registry of special addresses, less the blocks for documentation.
constexpr std::array<Block4, 11> not_public4 = {{{ip4(0, 0, 0, 0), 8},
                                                 {ip4(10, 0, 0, 0), 8},
                                                 {ip4(100, 64, 0, 0), 10},
                                                 {ip4(127, 0, 0, 0), 8},
                                                 {ip4(169, 254, 0, 0), 16},
                                                 {ip4(172, 16, 0, 0), 12},
                                                 {ip4(192, 0, 0, 0), 24},
                                                 {ip4(192, 168, 0, 0), 16},
                                                 {ip4(198, 18, 0, 0), 15},
                                                 {ip4(224, 0, 0, 0), 4},
                                                 {ip4(240, 0, 0, 0), 4}}};

constexpr std::size_t subnet_bytes6 = 8;

bool is_public4(ByteView bytes) {
    const std::uint32_t address = ip4(bytes[0], bytes[1], bytes[2], bytes[3]);
    return std::ranges::none_of(not_public4, [address](const Block4& block) {
        return (address ^ block.network) >> (32 - block.bits) == 0;
    });
}

bool is_public6(ByteView bytes) {
    constexpr std::array<std::uint8_t, 12> mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (std::ranges::equal(bytes.first(mapped.size()), mapped))
        return is_public4(bytes.subspan(mapped.size()));
    return (bytes[0] & 0xe0) == 0x20;  // 2000::/3 is all that is given out
}

}  // namespace

bool is_public_address(std::string_view ip) {
    const auto address = wire::Multiaddr::tcp(ip, 1);
    if (!address) return false;
    const wire::MultiaddrPart& host = address->parts().front();
    if (host.code == wire::MultiaddrCode::ip4) return is_public4(host.value);
    if (host.code == wire::MultiaddrCode::ip6) return is_public6(host.value);
    return false;  // a name
}

std::string subnet_of(const std::string& ip) {
    const auto address = wire::Multiaddr::tcp(ip, 1);
    if (!address || address->parts().front().code != wire::MultiaddrCode::ip6) return ip;
    const auto prefix = ByteView(address->parts().front().value).first(subnet_bytes6);
    return std::string(prefix.begin(), prefix.end()) + "/64";
}

std::string_view to_string(Reachability reachability) {
    switch (reachability) {
        case Reachability::unknown:
            return "unknown";
        case Reachability::publicly:
            return "public";
        case Reachability::privately:
            return "private";
    }
    return "unknown";
}

std::string_view to_string(Path path) {
    switch (path) {
        case Path::none:
            return "none";
        case Path::direct:
            return "direct";
        case Path::reversed:
            return "reversed";
        case Path::punched:
            return "punched";
        case Path::relayed:
            return "relayed";
    }
    return "none";
}

}  // namespace dedloc::p2p
