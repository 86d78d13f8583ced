// The terminal view: a RunView as lines of coloured text. Pure: same view and size, same lines.
//
//   demo  run 3fa2b1c0                                                            1:23
//   step 142 of 400  ▕██████████████░░░░░░░░░░▏ 612 of 1024 samples       3210 samples/s
//   loss 0.4312 ▇▆▅▄▃▂▂▁▁   accuracy 87.6 % at step 140, goal 88 %
//
//     peer             role           speed   step  doing             state
//   * host             trainer        812/s    142  computing 63 %    3fa2b1c0 =
//     …
//   1:12  peer-3 was lost: no answer for 4 s
//
// Cost: O(width × height). Thread: any.

#pragma once
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/monitor/lines.h"
#include "dedloc/monitor/run_view.h"

namespace dedloc::monitor {

inline constexpr std::size_t view_width_min = 40;
inline constexpr std::size_t view_width_max = 110;  // wider lines are harder to read
inline constexpr std::size_t view_height_min = 8;

// At most `height` lines of at most `width` columns (never narrower than view_width_min). `hint`
// stands at the right above the peers, where there is room.
std::vector<Line> render(const RunView& view,
                         std::size_t width,
                         std::size_t height,
                         Charset charset,
                         std::string_view hint = {});

// For pipes and logs: what is new since `seen` was printed, a line a step and a line an event,
// unless it was said already.
struct PlainProgress {
    std::uint64_t step = 0;
    std::uint64_t event_number = 0;
    std::uint64_t accuracy_step = 0;
    std::string more;        // what was told last of view.more
    std::string protection;  // and of view.protection_standing
    std::set<std::string> said;
};
std::vector<std::string> plain_lines(const RunView& view, PlainProgress& seen);

}  // namespace dedloc::monitor
