#include "dedloc/p2p/hole_puncher.h"

#include <utility>

#include "dedloc/base/log.h"

namespace dedloc::p2p {
namespace {

// After a refused attempt: routers that answer an unsolicited SYN with a reset are passed by trying
// again while the other side's SYN is on its way.
constexpr Duration punch_retry = 20ms;

}  // namespace

HolePuncher::PunchPtr HolePuncher::that_expects(const runtime::SocketAddress& remote) const {
    for (const PunchPtr& punch : punches_)
        if (punch->targets.contains(remote)) return punch;
    return nullptr;
}

Task<Result<void>> HolePuncher::punch(PeerId peer,
                                      std::vector<wire::Multiaddr> addresses,
                                      bool as_client,
                                      TimePoint deadline) {
    if (parts_.closing || punches_.size() >= punches_max)
        co_return Error(ErrorKind::overloaded, "too many holes are being punched");
    auto punch = std::make_shared<Punch>(peer, as_client, deadline, parts_.options.executor);
    for (const auto& address : addresses) {
        if (punch->targets.size() >= punch_addresses_max || !address.is_plain_tcp()) continue;
        runtime::SocketAddress target{.host = *address.host(), .port = *address.tcp_port()};
        if (parts_.listeners.port_for(target) != 0) punch->targets.insert(std::move(target));
    }
    if (punch->targets.empty())
        co_return Error(ErrorKind::not_found, "there is no address to punch a hole to");
    punches_.push_back(punch);
    for (const auto& target : punch->targets)
        parts_.scope.spawn("p2p punch", punch_at(punch, target));
    const bool punched = co_await punch->done.wait_until(parts_.clock(), deadline);
    std::erase(punches_, punch);
    if (punched || table_.direct(peer)) co_return Ok();
    co_return make_error(
        ErrorKind::timeout, "no hole could be punched to peer {}", peer.short_text());
}

// Ends with the punch; a handshake that has begun is not broken off, because the other side may
// have finished it already.
Task<void> HolePuncher::punch_at(PunchPtr punch, runtime::SocketAddress target) {
    runtime::Clock& clock = parts_.clock();
    const std::uint16_t port = parts_.listeners.port_for(target);
    while (!punch->done.is_set() && !parts_.closing && clock.now() < punch->deadline) {
        auto raw = co_await parts_.options.network.connect_from(port, target, punch->deadline);
        if (raw) {
            auto finished = co_await finish(punch, *std::move(raw));
            if (finished) co_return;
            log(LogLevel::debug,
                "p2p",
                "punch at {}: {}",
                target.text(),
                finished.error().message());
        }
        co_await clock.sleep_for(punch_retry);
    }
}

Task<Result<void>> HolePuncher::finish(PunchPtr punch, std::unique_ptr<runtime::Connection> raw) {
    auto upgrading =
        punch->as_client
            ? transport::upgrade_dialled(std::move(raw),
                                         parts_.options.upgrades,
                                         punch->peer,
                                         parts_.clock(),
                                         transport::Opening::ask)
            : transport::upgrade_accepted(std::move(raw), parts_.options.upgrades, parts_.clock());
    auto secured = co_await std::move(upgrading);
    if (!secured) co_return std::move(secured).error();
    if (secured->remote != punch->peer)
        co_return Error(ErrorKind::conflict, "somebody else answered");
    Origin origin;
    origin.path = Path::punched;
    origin.from_listen_port = true;
    auto added = parts_.add(*std::move(secured), std::move(origin));
    punch->done.set();
    if (!added) co_return std::move(added).error();
    co_return Ok();
}

}  // namespace dedloc::p2p
