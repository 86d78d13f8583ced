// DescribedModel: a model as dedloc_tensor describes it: what is compared with other peers' (the
// fingerprint), and which tensors are trained or averaged.
//
// Thread: any. Errors: unsupported (a type that the engine does not write in place).

#pragma once
#include <span>
#include <string>
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

// A text that a caller may leave out: null is empty.
inline std::string text_of(const char* text) { return text != nullptr ? text : ""; }

}  // namespace dedloc::c_api
