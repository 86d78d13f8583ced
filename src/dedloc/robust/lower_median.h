// The lower one of the middle two of an even number, so that half of the values are not below it.
//
// Thread: any; pure. The same bits on every CPU. Cost: linear.

#pragma once
#include <algorithm>
#include <vector>

namespace dedloc::robust {

// 0 of none.
inline double lower_median(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace dedloc::robust
