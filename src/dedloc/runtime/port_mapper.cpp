#include "dedloc/runtime/port_mapper.h"

namespace dedloc::runtime {

std::string_view to_string(MappingProtocol protocol) {
    return protocol == MappingProtocol::upnp ? "UPnP" : "NAT-PMP";
}

}  // namespace dedloc::runtime
