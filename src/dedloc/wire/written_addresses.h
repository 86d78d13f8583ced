// Addresses as people write them, for the program, for C and for Python: multiaddrs, or shorter.
//
// Errors: bad_input or unsupported, for people. Thread: any; pure.

#pragma once
#include <string>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::wire {

// Reads where to listen: multiaddrs, "HOST:PORT" with an IP address as HOST ("[IPv6]:PORT"; none or
// "*": all IPv4 addresses of this machine), "PORT"; "none" is left out. Returns multiaddrs.
Result<std::vector<std::string>> listen_addresses(const std::vector<std::string>& written);
// Reads what others are told to dial: multiaddrs, "HOST:PORT", "[IPv6]:PORT"; HOST may be a name.
Result<std::vector<std::string>> announced_addresses(const std::vector<std::string>& written);

}  // namespace dedloc::wire
