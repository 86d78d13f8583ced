#include "dedloc/robust/projections.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dedloc/base/check.h"
#include "dedloc/base/float_environment.h"
#include "dedloc/base/random.h"
#include "dedloc/robust/clip_kernels.h"

namespace dedloc::robust {
namespace {

constexpr std::size_t word_elements = 64;
constexpr std::size_t words_at_once = 64;  // of each projection
constexpr std::uint64_t golden = 0x9e3779b97f4a7c15u;

}  // namespace

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
    DEDLOC_CHECK(x.size() == base.size());
    const FloatEnvironmentGuard guard;
    std::array<std::uint64_t, projections_count * words_at_once> words{};
    constexpr std::size_t elements = word_elements * words_at_once;
    for (std::size_t first = 0; first < x.size(); first += elements) {
        const std::size_t count = std::min(elements, x.size() - first);
        for (std::size_t w = 0; w * word_elements < count; ++w) {
            const std::uint64_t place = offset + first + w * word_elements;
            for (std::size_t k = 0; k < projections_count; ++k)
                words[w * projections_count + k] = base::mix64(keys_[k] + place * golden);
        }
        add_projections(x.data() + first,
                        base.data() + first,
                        words.data(),
                        count,
                        sums.projected.data(),
                        &sums.squared_distance);
    }
}

double estimated_length(const Projected& projected) {
    double squares = 0;
    for (const double each : projected) squares += each * each;
    return std::sqrt(squares / static_cast<double>(projected.size()));
}

}  // namespace dedloc::robust
