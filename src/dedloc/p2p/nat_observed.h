// Collects what others see of us: the observed addresses of identify, one an observer.
//
// Only those of connections from our listen port tell how a NAT maps that port; the others tell our
// public IP. Two observers on different machines that see different ports of one mapping reveal a
// NAT that maps by destination (symmetric): hole punching cannot work through it.
//
// Thread: one. Limits: observers_max.

#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/time.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::p2p {

struct Observation {
    PeerId observer{};
    std::string observer_ip{};
    wire::Multiaddr address{};  // plain TCP, an IP literal
    bool of_listen_port = false;
};

class ObservedAddresses {
  public:
    explicit ObservedAddresses(std::function<bool(std::string_view ip)> is_public)
        : is_public_(std::move(is_public)) {}

    // Keeps public addresses only. True if it is news.
    bool note(Observation observation);
    void forget(const PeerId& observer);
    std::vector<PeerId> observers() const;

    std::vector<wire::Multiaddr> all() const;     // distinct, newest first
    std::vector<wire::Multiaddr> mapped() const;  // of our listen port
    bool mapping_varies() const;
    // Where a hole might lead to us: what was seen of the listen port; if nothing was, the ports we
    // listen on at the address that was seen, because most NATs keep ports.
    std::vector<wire::Multiaddr> to_punch(const std::vector<std::uint16_t>& listen_ports) const;

  private:
    std::function<bool(std::string_view ip)> is_public_;
    std::vector<Observation> seen_;  // newest last
};

}  // namespace dedloc::p2p
