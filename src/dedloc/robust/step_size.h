// How large a step is, as the rows of its contributions tell (rows.h). It stands in decisions.
//
// Thread: any.

#pragma once
#include "dedloc/base/fields.h"

namespace dedloc::robust {

struct StepSize {
    double length = 0;    // of the average
    double distance = 0;  // of an honest contribution from the honest mean (spread.h)

    friend bool operator==(const StepSize&, const StepSize&) = default;
    DEDLOC_FIELDS(length, distance)
};

}  // namespace dedloc::robust
