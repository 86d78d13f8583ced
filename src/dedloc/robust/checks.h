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
    double work = 0;           // samples of its contribution
    bool contributes = false;  // with something to recompute
    double chance = 0;         // that its contribution is checked, where somebody is free to do so
    bool always = false;       // on probation: each contribution is checked, whoever has others
};

// Checks take at most so much of all work, or the usual fraction: peers that only check train
// nothing, and answers that come too late find nobody.
inline constexpr double check_work_most = 0.5;

// Lowers chances that are above `usual`, all alike, until checks are expected to take no more than
// check_work_most of the work.
void limit_chances(std::span<Checkable> members, double usual);

struct CheckAssignment {
    std::uint32_t validator = 0;
    std::uint32_t target = 0;
    friend bool operator==(const CheckAssignment&, const CheckAssignment&) = default;
};

// Each contribution with its chance, and of all together as many as the chances add up to; each by
// one validator, drawn in proportion to speed, that has no other job. Of those on probation, whose
// contributions come first, a validator may have several.
// Members are known by their index.
std::vector<CheckAssignment> assign_checks(const Digest& seed, std::span<const Checkable> members);

}  // namespace dedloc::robust
