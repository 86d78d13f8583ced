#include "dedloc/p2p/relay_keeper.h"

#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/limits.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::p2p {

Task<void> keep_connected(Host& host, std::string address) {
    const auto parsed = wire::Multiaddr::from_text(address);
    if (!parsed || !parsed->peer()) co_return;
    const PeerId peer = *parsed->peer();
    host.protect(peer, true);
    bool is_told = false;  // of an outage, once is enough
    for (;;) {
        if (!host.is_connected(peer)) {
            const TimePoint deadline = host.clock().now() + dial_max;
            auto dialled = co_await host.dial(address, deadline);
            const bool failed = !dialled && dialled.error().kind() != ErrorKind::cancelled;
            if (failed)
                log(std::exchange(is_told, true) ? LogLevel::info : LogLevel::warning,
                    "p2p",
                    "the relay {} cannot be reached and is tried again: {}",
                    address,
                    dialled.error().message());
        }
        if (host.is_connected(peer)) is_told = false;
        co_await host.clock().sleep_for(keeper_pause);
    }
}

}  // namespace dedloc::p2p
