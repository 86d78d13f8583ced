// A learner that costs next to nothing: a bowl, whose gradient is the way to its lowest point with
// noise that is a function of peer and sample number. For experiments about time.
//
// Cost: one pass over the elements a micro-batch. Thread: one.

#pragma once
#include <memory>

#include "dedloc/base/result.h"
#include "dedloc/train/model.h"

namespace dedloc::lab {

Result<std::unique_ptr<train::SampledModel>> make_bowl(std::size_t elements, const PeerId& peer);

}  // namespace dedloc::lab
