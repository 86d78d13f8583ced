#include "dedloc/p2p/stranger_budget.h"

#include <algorithm>

#include "dedloc/p2p/ip_family.h"
#include "dedloc/p2p/limits.h"
#include "dedloc/transport/inbound_handshakes.h"

namespace dedloc::p2p {

namespace {

using Share = StrangerBudget::Share;

constexpr Share share_of_peer{
    .work_part = 50, .work_burst = 20ms, .bytes_per_s = 16u << 10, .bytes_burst = 64u << 10};
constexpr Share share_of_network{
    .work_part = 40, .work_burst = 150ms, .bytes_per_s = 24u << 10, .bytes_burst = 256u << 10};
constexpr Share share_of_all{
    .work_part = 33, .work_burst = 200ms, .bytes_per_s = 32u << 10, .bytes_burst = 512u << 10};
// A handshake, a hello and what comes with them, once in 15 s from one address.
constexpr Share share_of_newcomer{
    .work_part = 3000, .work_burst = 5ms, .bytes_per_s = 1u << 10, .bytes_burst = 16u << 10};
constexpr Share share_of_newcomers{
    .work_part = 50, .work_burst = 100ms, .bytes_per_s = 16u << 10, .bytes_burst = 256u << 10};

// An IPv4 address; of IPv6, what one household may have at most.
std::string address_of(const std::string& ip) {
    return is_ip6(ip) ? transport::network_of(ip) : ip;
}

}  // namespace

void StrangerBudget::Meter::spend(const Share& share, const Cost& cost, TimePoint now) {
    work = std::max(work, now) + cost.work * share.work_part;
    const double seconds = static_cast<double>(cost.bytes) / static_cast<double>(share.bytes_per_s);
    bytes = std::max(bytes, now) + from_seconds(seconds);
}

Duration StrangerBudget::Meter::over(const Share& share, TimePoint now) const {
    const Duration work_over = work - now - share.work_burst * share.work_part;
    const double burst_s =
        static_cast<double>(share.bytes_burst) / static_cast<double>(share.bytes_per_s);
    return std::max({work_over, bytes - now - from_seconds(burst_s), Duration(0)});
}

Duration StrangerBudget::over(const Meters& meters,
                              const std::string& key,
                              const Share& share,
                              TimePoint now) {
    const auto found = meters.find(key);
    return found == meters.end() ? Duration(0) : found->second.over(share, now);
}

// When there are too many, those who have paid go; then whoever has least to pay.
StrangerBudget::Meter& StrangerBudget::meter_of(Meters& meters,
                                                const std::string& key,
                                                TimePoint now) {
    if (meters.size() >= stranger_meters_max && !meters.contains(key)) {
        std::erase_if(meters, [now](const auto& one) {
            return one.second.work <= now && one.second.bytes <= now;
        });
        if (meters.size() >= stranger_meters_max)
            meters.erase(std::ranges::min_element(
                meters, {}, [](const auto& one) { return one.second.work; }));
    }
    return meters[key];
}

bool StrangerBudget::goes_first(const std::string& address, TimePoint now) const {
    return over(addresses_, address, share_of_newcomer, now) == Duration(0) &&
           all_first_.over(share_of_newcomers, now) == Duration(0);
}

void StrangerBudget::spend(const Asker& asker, const Cost& cost, TimePoint now) {
    const std::string address = address_of(asker.address);
    meter_of(addresses_, address, now).spend(share_of_newcomer, cost, now);
    const std::string network = transport::network_of(asker.address);
    Meter& of_network = meter_of(networks_, network, now);
    const bool all_are_over = all_.over(share_of_all, now) > Duration(0) ||
                              of_network.over(share_of_network, now) > Duration(0);
    if (all_are_over) all_first_.spend(share_of_newcomers, cost, now);
    if (!asker.peer.empty()) meter_of(peers_, asker.peer, now).spend(share_of_peer, cost, now);
    of_network.spend(share_of_network, cost, now);
    all_.spend(share_of_all, cost, now);
}

Duration StrangerBudget::wait(const Asker& asker, TimePoint now) const {
    const Duration own =
        asker.peer.empty() ? Duration(0) : over(peers_, asker.peer, share_of_peer, now);
    const Duration shared =
        std::max(over(networks_, transport::network_of(asker.address), share_of_network, now),
                 all_.over(share_of_all, now));
    if (shared == Duration(0) || goes_first(address_of(asker.address), now)) return own;
    return std::max(own, shared);
}

}  // namespace dedloc::p2p
