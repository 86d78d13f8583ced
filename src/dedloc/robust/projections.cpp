#include "dedloc/robust/projections.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dedloc/base/check.h"
#include "dedloc/base/float_environment.h"
#include "dedloc/base/random.h"
#include "dedloc/robust/clip_kernels.h"

namespace dedloc::robust {

Projections::Projections(const Digest& seed) {
    const ByteView bytes = seed.view();
    std::uint64_t key = 0;
    for (std::size_t k = 0; k < projections_count; ++k) {
        // Every key depends on all bytes.
        for (const std::uint8_t byte : bytes) key = base::mix64(key ^ byte);
        keys_[k] = key;
    }
}

void Projections::add(std::uint64_t offset,
                      std::span<const float> x,
                      std::span<const float> base,
                      Sums& sums) const {
    DEDLOC_CHECK(base.empty() || x.size() == base.size());
    const FloatEnvironmentGuard guard;
    constexpr std::size_t at_once = 4096;  // whose sums are joined together
    for (std::size_t first = 0; first < x.size(); first += at_once)
        add_projections(x.data() + first,
                        base.empty() ? nullptr : base.data() + first,
                        keys_.data(),
                        offset + first,
                        std::min(at_once, x.size() - first),
                        sums.projected.data(),
                        &sums.squared_distance);
}

double estimated_length(const Projected& projected) {
    double squares = 0;
    for (const double each : projected) squares += each * each;
    return std::sqrt(squares / static_cast<double>(projected.size()));
}

}  // namespace dedloc::robust
