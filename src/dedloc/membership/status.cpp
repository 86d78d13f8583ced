#include "dedloc/membership/status.h"

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

}  // namespace dedloc::membership
