// [robust]: a reducer for poisoned contributions, only in runs that have the section.

#pragma once
#include "dedloc/run/field_rules.h"

namespace dedloc::run {

template <typename Visitor, typename Robust>
void visit_robust(Visitor& visit, Robust& robust) {
    visit("robust.reducer", robust.reducer, Choice{{"centered_clip"}});
    visit("robust.tau", robust.tau, NumbersOrAuto{1e-12, 1e9});
    visit("robust.iterations_max", robust.iterations_max, Integers{1, 10'000});
    visit("robust.eps", robust.eps, Numbers{1e-9, 0.1});
    visit("robust.weight_cap", robust.weight_cap, Numbers{1, 1000});
    visit("robust.check", robust.check, Numbers{0, 1});
    visit("robust.tolerance", robust.tolerance, Numbers{0, 0.4});
    visit("robust.probation", robust.probation, Integers{0, 16});
    visit("robust.trust_after", robust.trust_after, Integers{0, 1000});
    visit("robust.quorum", robust.quorum, Choice{{"byzantine", "majority"}});
}

}  // namespace dedloc::run
