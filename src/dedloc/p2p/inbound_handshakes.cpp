#include "dedloc/p2p/inbound_handshakes.h"

#include <algorithm>

#include "dedloc/p2p/limits.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::p2p {

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
    return std::make_unique<Seat>(*this, number);
}

std::optional<runtime::TaskId> InboundHandshakes::unseat_one_for(const std::string& ip,
                                                                 TimePoint now) {
    if (seats_.empty()) return std::nullopt;
    std::map<std::string, std::size_t> held;
    for (const auto& [number, seat] : seats_) ++held[seat.network];
    auto chosen = seats_.begin();
    for (auto seat = seats_.begin(); seat != seats_.end(); ++seat)
        if (held[seat->second.network] > held[chosen->second.network]) chosen = seat;
    if (chosen->second.network == network_of(ip)) {
        if (crowding_until_ - now > crowding_burst * crowding_interval) return std::nullopt;
        crowding_until_ = std::max(crowding_until_, now) + crowding_interval;
    }
    const runtime::TaskId task = chosen->second.task;
    seats_.erase(chosen);
    return task;
}

}  // namespace dedloc::p2p
