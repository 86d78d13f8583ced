#include "dedloc/membership/protocol_range.h"

#include <algorithm>
#include <fmt/format.h>

#include "dedloc/base/printable.h"
#include "dedloc/base/release.h"

namespace dedloc::membership {

namespace {

std::string release_of(const ProtocolRange& range) {
    if (range.release.empty()) return "an early dedloc";
    return "dedloc " + range.printable_release();
}

}  // namespace

std::string ProtocolRange::printable_release() const {
    return base::printable(release, release_bytes_max);
}

ProtocolRange own_protocols() {
    return {protocol_oldest, protocol_newest, std::string(base::release)};
}

std::string to_text(const ProtocolRange& range) {
    return range.oldest == range.newest ? fmt::format("{}", range.newest)
                                        : fmt::format("{} to {}", range.oldest, range.newest);
}

Result<std::uint64_t> agree_on_protocol(const ProtocolRange& caller,
                                        const ProtocolRange& callee,
                                        const PeerId& callee_id) {
    for (const ProtocolRange* range : {&caller, &callee})
        if (range->oldest == 0 || range->oldest > range->newest)
            return make_error(ErrorKind::peer_broke_protocol,
                              "a hello tells of protocols {} to {}, which is no range",
                              range->oldest,
                              range->newest);
    const std::uint64_t agreed = std::min(caller.newest, callee.newest);
    if (agreed >= std::max(caller.oldest, callee.oldest)) return agreed;
    const bool caller_is_older = caller.newest < callee.newest;
    return make_error(
        ErrorKind::conflict,
        "peer {} has {} and speaks version {} of a run's protocol, and {} here speaks version {}: "
        "{} {} or newer",
        callee_id.short_text(),
        release_of(callee),
        to_text(callee),
        release_of(caller),
        to_text(caller),
        caller_is_older ? "install here" : "its owner has to install",
        release_of(caller_is_older ? callee : caller));
}

}  // namespace dedloc::membership
