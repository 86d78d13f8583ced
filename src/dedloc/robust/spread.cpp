#include "dedloc/robust/spread.h"

#include <cmath>
#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/base/float_environment.h"
#include "dedloc/robust/lower_median.h"

namespace dedloc::robust {
namespace {

double squared_distance(const std::vector<Row>& a, const std::vector<Row>& b) {
    DEDLOC_CHECK(a.size() == b.size());
    double sum = 0;
    for (std::size_t owner = 0; owner < a.size(); ++owner)
        for (std::size_t k = 0; k < projections_count; ++k) {
            const double apart = static_cast<double>(a[owner].contribution[k]) -
                                 static_cast<double>(b[owner].contribution[k]);
            sum = sum + apart * apart;
        }
    return sum / static_cast<double>(projections_count);
}

}  // namespace

double typical_distance(std::span<const std::vector<Row>> members) {
    if (members.size() < 2) return 0;
    const FloatEnvironmentGuard guard;
    std::vector<double> of_each;
    for (std::size_t m = 0; m < members.size(); ++m) {
        std::vector<double> to_others;
        for (std::size_t other = 0; other < members.size(); ++other)
            if (other != m) to_others.push_back(squared_distance(members[m], members[other]));
        of_each.push_back(lower_median(std::move(to_others)));
    }
    return std::sqrt(lower_median(std::move(of_each)) / 2);
}

}  // namespace dedloc::robust
