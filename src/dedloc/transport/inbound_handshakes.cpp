#include "dedloc/transport/inbound_handshakes.h"

#include <algorithm>

#include "dedloc/transport/limits.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::transport {

namespace {

constexpr std::size_t network_bytes4 = 3;
constexpr std::size_t network_bytes6 = 6;

}  // namespace

std::string network_of(const std::string& ip) {
    const auto address = wire::Multiaddr::tcp(ip, 1);
    if (!address) return ip;
    const wire::MultiaddrPart& host = address->parts().front();
    const bool is_v6 = host.code == wire::MultiaddrCode::ip6;
    if (!is_v6 && host.code != wire::MultiaddrCode::ip4) return ip;
    const auto bytes = ByteView(host.value).first(is_v6 ? network_bytes6 : network_bytes4);
    return {bytes.begin(), bytes.end()};
}

void InboundHandshakes::belongs_to(std::uint64_t seat, runtime::TaskId task) {
    const auto taken = seats_.find(seat);
    if (taken != seats_.end()) taken->second.task = task;
}

std::unique_ptr<InboundHandshakes::Seat> InboundHandshakes::sit(const std::string& ip) {
    const std::uint64_t number = next_++;
    seats_[number].network = network_of(ip);
    seats_[number].address = ip;
    return std::make_unique<Seat>(*this, number);
}

// Counts this knock.
bool InboundHandshakes::knocks_little(const std::string& ip, TimePoint now) {
    if (knocks_.size() >= knocking_addresses_max) {
        std::erase_if(knocks_, [now](const auto& one) { return one.second <= now; });
        if (knocks_.size() >= knocking_addresses_max) knocks_.erase(knocks_.begin());
    }
    TimePoint& until = knocks_[ip];
    until = std::min(std::max(until, now) + knock_interval, now + 10 * knock_interval);
    return until - now <= knocks_in_a_row * knock_interval;
}

std::optional<runtime::TaskId> InboundHandshakes::unseat_one_for(const std::string& ip,
                                                                 TimePoint now) {
    if (seats_.empty()) return std::nullopt;
    std::map<std::string, std::size_t> by_network;
    std::map<std::string, std::size_t> by_address;
    for (const auto& [number, seat] : seats_) {
        ++by_network[seat.network];
        ++by_address[seat.address];
    }
    const auto held = [&](const Taken& seat) {
        return std::pair(by_network[seat.network], by_address[seat.address]);
    };
    auto chosen = seats_.begin();
    for (auto seat = seats_.begin(); seat != seats_.end(); ++seat)
        if (held(seat->second) > held(chosen->second)) chosen = seat;
    if (chosen->second.network == network_of(ip)) {
        const bool is_calm = knocks_little(ip, now) && chosen->second.address != ip;
        if (!is_calm && crowding_until_ - now > crowding_burst * crowding_interval)
            return std::nullopt;
        if (!is_calm) crowding_until_ = std::max(crowding_until_, now) + crowding_interval;
    }
    const runtime::TaskId task = chosen->second.task;
    seats_.erase(chosen);
    return task;
}

}  // namespace dedloc::transport
