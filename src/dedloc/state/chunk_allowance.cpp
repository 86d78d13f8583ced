#include "dedloc/state/chunk_allowance.h"

#include <algorithm>

namespace dedloc::state {

namespace {

// Where nothing came in time on many lanes, a quarter of them goes on. Half of them would fill a
// slow line with chunks that are late as well, again and again, until their providers are dropped.
constexpr std::size_t lanes_cut = 4;

}  // namespace

void ChunkAllowance::more() { allowed_ = std::min(lanes_allowed_max, allowed_ + 1); }

void ChunkAllowance::less(TimePoint now) {
    if (less_since_ && now < *less_since_ + timeout_) return;
    less_since_ = now;
    allowed_ = std::max<std::size_t>(1, std::min(allowed_, active_ + 1) / lanes_cut);
    timeout_ = std::min(timeout_ * 2, chunk_timeout_max);
}

}  // namespace dedloc::state
