// Which family the text of an IP address is of.
//
// Thread: any; pure.

#pragma once
#include <string_view>

namespace dedloc::p2p {

// No IPv4 address and no name has a colon.
inline bool is_ip6(std::string_view host) { return host.find(':') != std::string_view::npos; }

}  // namespace dedloc::p2p
