// LinkMeter: what goes over this machine's link in all, both ways, looked at again and again.
// Thread: the network thread. Cost of observe(): Host::traffic().
#pragma once
#include <optional>

#include "dedloc/links/rates.h"
#include "dedloc/p2p/host.h"

namespace dedloc::links {

class LinkMeter {
  public:
    // `share`: Throughput's.
    LinkMeter(const p2p::Host& host, double share) : host_(host), up_(share), down_(share) {}
    // The first call only begins the measurement.
    void observe(TimePoint now) {
        const runtime::Traffic traffic = host_.traffic();
        const runtime::Traffic before = before_.value_or(traffic);
        up_.add(traffic.sent_bytes - before.sent_bytes, now);
        down_.add(traffic.received_bytes - before.received_bytes, now);
        before_ = traffic;
    }
    const Throughput& up() const { return up_; }
    const Throughput& down() const { return down_; }

  private:
    const p2p::Host& host_;
    std::optional<runtime::Traffic> before_;
    Throughput up_;
    Throughput down_;
};

}  // namespace dedloc::links
