#include "dedloc/p2p/relay_keeper.h"

#include "dedloc/base/log.h"
#include "dedloc/p2p/limits.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::p2p {

Task<void> keep_connected(Host& host, std::string address) {
    const auto parsed = wire::Multiaddr::from_text(address);
    if (!parsed || !parsed->peer()) co_return;
    const PeerId peer = *parsed->peer();
    host.protect(peer, true);
    for (;;) {
        if (!host.is_connected(peer)) {
            const TimePoint deadline = host.clock().now() + dial_max;
            auto dialled = co_await host.dial(address, deadline);
            if (!dialled)
                log(LogLevel::info, "p2p", "relay {}: {}", address, dialled.error().message());
        }
        co_await host.clock().sleep_for(keeper_pause);
    }
}

}  // namespace dedloc::p2p
