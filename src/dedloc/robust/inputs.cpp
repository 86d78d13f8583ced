#include "dedloc/robust/inputs.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/check.h"

namespace dedloc::robust {

VectorInputs::VectorInputs(std::vector<std::span<const float>> vectors)
    : vectors_(std::move(vectors)), elements_(vectors_.empty() ? 0 : vectors_.front().size()) {
    for (const std::span<const float> each : vectors_) DEDLOC_CHECK(each.size() == elements_);
}

void VectorInputs::read(std::size_t member, std::size_t first, std::span<float> out) const {
    std::ranges::copy(vectors_[member].subspan(first, out.size()), out.begin());
}

}  // namespace dedloc::robust
