#include "dedloc/base/result.h"

namespace dedloc::base {

std::string_view to_string(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::timeout:
            return "timeout";
        case ErrorKind::overloaded:
            return "overloaded";
        case ErrorKind::peer_gone:
            return "peer gone";
        case ErrorKind::peer_broke_protocol:
            return "peer broke the protocol";
        case ErrorKind::not_found:
            return "not found";
        case ErrorKind::denied:
            return "denied";
        case ErrorKind::unsupported:
            return "unsupported";
        case ErrorKind::cancelled:
            return "cancelled";
        case ErrorKind::bad_input:
            return "bad input";
        case ErrorKind::conflict:
            return "conflict";
        case ErrorKind::local_fault:
            return "local fault";
        case ErrorKind::cannot_compute:
            return "cannot compute";
    }
    return "unknown";
}

std::string to_string(const Error& error) {
    return fmt::format("{}: {}", to_string(error.kind()), error.message());
}

}  // namespace dedloc::base
