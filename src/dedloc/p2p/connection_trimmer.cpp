#include "dedloc/p2p/connection_trimmer.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/transport/inbound_handshakes.h"

namespace dedloc::p2p {

void ConnectionTrimmer::start() { parts_.scope.spawn("p2p idle", close_idle_loop()); }

// When there was last a stream to the peer on that connection, or on lanes beside it, which end
// with it. Whoever asks now and then learns of short ones, too.
TimePoint ConnectionTrimmer::last_use(PeerConnection& connection) const {
    return std::max(connection.used_at(), lanes_.last_use(connection.remote()));
}

// Connections that nobody needs and that nobody used for so long, the longest unused first. (A
// stream that is open counts as use now.)
std::vector<ConnectionPtr> ConnectionTrimmer::dispensable(Duration unused_for) const {
    const TimePoint now = parts_.now();
    std::vector<std::pair<TimePoint, ConnectionPtr>> by_use;
    for (const auto& [peer, twins] : table_.by_peer()) {
        if (parts_.needed.is_needed(peer)) continue;
        for (const ConnectionPtr& one : twins) {
            const TimePoint used = last_use(*one);
            if (now - used >= unused_for) by_use.emplace_back(used, one);
        }
    }
    std::stable_sort(by_use.begin(), by_use.end(), [](const auto& a, const auto& b) {
        return a.first < b.first;
    });
    std::vector<ConnectionPtr> all;
    for (auto& [used, one] : by_use) all.push_back(std::move(one));
    return all;
}

void ConnectionTrimmer::let_go(const ConnectionPtr& one) {
    log(LogLevel::debug, "p2p", "{} makes room for another", one->remote().short_text());
    one->close(Error(ErrorKind::overloaded, "the connection made room for another peer's"));
}

void ConnectionTrimmer::let_least_missed_go() {
    const auto going = dispensable(Duration(0));
    if (!going.empty()) let_go(going.front());
}

bool ConnectionTrimmer::make_room_for(std::size_t connections, Duration unused_for) {
    const auto missing = [&] {
        const std::size_t wanted = table_.count() + connections;
        return wanted - std::min(wanted, parts_.options.connections_max);
    };
    if (missing() == 0) return true;
    const auto going = dispensable(unused_for);
    if (going.size() < missing()) return false;
    for (const ConnectionPtr& one : going)
        if (missing() > 0) let_go(one);
    return missing() == 0;
}

Task<void> ConnectionTrimmer::close_idle_loop() {
    for (;;) {
        co_await parts_.clock().sleep_for(idle_look_interval);
        strangers_.give_back_memory();
        const TimePoint now = parts_.now();
        for (const ConnectionPtr& one : table_.all()) {
            const bool is_idle = now - last_use(*one) >= connection_idle_max;
            if (!is_idle || parts_.needed.is_needed(one->remote()) || one->is_closed()) continue;
            one->session().go_away();
            one->close_gently(Error(ErrorKind::peer_gone, "nobody used the connection any more"));
        }
    }
}

// ----------------------------------------------------------------------------------- strangers

std::size_t ConnectionTrimmer::stranger_connections_max() const {
    std::size_t most = std::min(p2p::stranger_connections_max, parts_.options.connections_max);
    if (parts_.options.memory_bytes == 0) return most;
    const std::uint64_t fit =
        parts_.options.memory_bytes / strangers_part_of_memory / stranger_connection_bytes;
    return std::min<std::uint64_t>(most, std::max<std::uint64_t>(fit, stranger_connections_min));
}

// A stranger of the same address or network makes room when there are too many of those, else the
// one of all strangers that was unused longest.
void ConnectionTrimmer::make_room_for_stranger(const std::string& address) {
    const std::string network = transport::network_of(address);
    std::vector<ConnectionPtr> of_address;
    std::vector<ConnectionPtr> of_network;
    auto all = dispensable(Duration(0));
    for (const ConnectionPtr& one : all) {
        const std::string theirs = address_behind(*one);
        if (theirs == address) of_address.push_back(one);
        if (transport::network_of(theirs) == network) of_network.push_back(one);
    }
    if (of_address.size() >= stranger_connections_per_address_max)
        let_go(of_address.front());
    else if (of_network.size() >= stranger_connections_per_network_max)
        let_go(of_network.front());
    else if (all.size() >= stranger_connections_max())
        let_go(all.front());
}

}  // namespace dedloc::p2p
