// DescribedModel: a model as dedloc_tensor describes it: what is compared with other peers' (the
// fingerprint), and which tensors are trained or averaged.
//
// Thread: any. Errors: unsupported (a type that the engine does not write in place).

#pragma once
#include <span>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/c_api/dedloc.h"
#include "dedloc/run/layout.h"
#include "dedloc/train/fingerprint.h"
#include "dedloc/train/span_model.h"

namespace dedloc::c_api {

struct DescribedModel {
    train::Fingerprint fingerprint;
    std::vector<train::PlacedTensor> tensors;  // in order; none twice, none that is empty
};

// `in_memory`: the engine reads and writes where the tensors lie.
Result<DescribedModel> read_model(std::span<const dedloc_tensor> tensors, bool in_memory);

// Where they lie in the vector that is averaged.
run::Layout layout_of(const std::vector<train::PlacedTensor>& tensors);

}  // namespace dedloc::c_api
