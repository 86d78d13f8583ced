// Draws who recomputes whose gradient of a step by the step's seed: everybody comes to the same
// list, and nobody knew it when contributions were committed.
//
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dedloc/base/bytes.h"

namespace dedloc::robust {

struct Checkable {
    double speed = 0;          // samples per second; 0: it does not validate
    bool contributes = false;  // with something to recompute
    bool always = false;       // on probation: each contribution of it is checked
};

struct CheckJob {
    std::uint32_t validator = 0;
    std::uint32_t target = 0;
    friend bool operator==(const CheckJob&, const CheckJob&) = default;
};

// `fraction` of all contributions, drawn without preference, and those that are always checked;
// each by one validator, drawn in proportion to speed, that is not on probation and, as long as
// there are others, has no other job. Members are known by their index.
std::vector<CheckJob> assign_checks(const Digest& seed,
                                    std::span<const Checkable> members,
                                    double fraction);

}  // namespace dedloc::robust
