#include "dedloc/membership/status.h"

#include <tuple>

namespace dedloc::membership {

std::string_view to_string(Role role) {
    switch (role) {
        case Role::trainer:
            return "trainer";
        case Role::aggregator:
            return "aggregator";
        case Role::observer:
            return "observer";
        case Role::relay:
            return "relay";
        case Role::expert_server:
            return "experts";
    }
    return "unknown";
}

std::string_view to_string(Phase phase) {
    switch (phase) {
        case Phase::starting:
            return "starting";
        case Phase::downloading:
            return "downloading";
        case Phase::computing:
            return "computing";
        case Phase::averaging:
            return "averaging";
        case Phase::waiting:
            return "waiting";
        case Phase::leaving:
            return "leaving";
    }
    return "unknown";
}

bool Status::says_as_much_as(const Status& later) const {
    const auto decisive = [](const Status& status) {
        return std::tie(status.peer,
                        status.incarnation,
                        status.role,
                        status.phase,
                        status.branch,
                        status.step,
                        status.certificate,
                        status.branch_samples,
                        status.state_hash,
                        status.committed_samples,
                        status.accuracy_step,
                        status.addresses,
                        status.name,
                        status.version,
                        status.lets_in);
    };
    // Samples that were thrown away or handed in are news, and so is a line that was measured.
    const bool computes_on = phase == Phase::computing && samples <= later.samples;
    const bool measured = upload_bytes_per_s > 0;
    return decisive(*this) == decisive(later) && (samples == later.samples || computes_on) &&
           measured == (later.upload_bytes_per_s > 0);
}

}  // namespace dedloc::membership
