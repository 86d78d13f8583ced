// A way in through the router: asks it to pass a TCP port on to this machine, as a parameter (real:
// router_port_mapper.h; none in the simulator).
//
// The answer is the router's word only about the world: whoever uses it looks whether the
// address is public, and whether anybody gets through (p2p/port_mappings.h).
//
// Thread: the network thread.

#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "dedloc/base/result.h"
#include "dedloc/base/time.h"
#include "dedloc/runtime/network.h"
#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

enum class MappingProtocol { nat_pmp, upnp };
std::string_view to_string(MappingProtocol protocol);  // "NAT-PMP", "UPnP": for people

struct PortWish {
    std::uint16_t internal_port = 0;
    std::uint16_t external_port = 0;  // the router may give another one
    Duration lease{0};
};

struct PortMapping {
    MappingProtocol protocol = MappingProtocol::nat_pmp;
    std::uint16_t internal_port = 0;
    SocketAddress external{};  // an IP literal, perhaps a private one
    Duration lease{0};         // 0: until it is removed
    std::string control{};     // UPnP: where the router was asked
};

class PortMapper {
  public:
    virtual ~PortMapper() = default;
    // Asking again for the same internal port renews.
    // Errors: not_found (no router answers), denied (it refuses, in its own words), timeout,
    // local_fault.
    virtual Task<Result<PortMapping>> map(PortWish wish, TimePoint deadline) = 0;
    virtual Task<Result<void>> unmap(PortMapping mapping, TimePoint deadline) = 0;
};

}  // namespace dedloc::runtime
