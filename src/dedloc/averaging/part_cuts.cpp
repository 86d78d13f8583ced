#include "dedloc/averaging/part_cuts.h"

#include <array>
#include <numeric>

namespace dedloc::averaging {

std::vector<std::uint64_t> cuts_for(std::uint64_t pieces, double seconds) {
    std::vector<std::uint64_t> quarters(pieces, 4);
    if (pieces >= short_ends_pieces_min &&
        seconds >= static_cast<double>(pieces) * short_ends_piece_seconds_min) {
        constexpr std::array<std::uint64_t, 4> rising = {1, 1, 2, 2};
        quarters.resize(pieces - 3);
        quarters.insert(quarters.begin(), rising.begin(), rising.end());
        quarters.insert(quarters.end(), rising.rbegin(), rising.rend());
    }
    std::vector<std::uint64_t> cuts(quarters.size());
    std::partial_sum(quarters.begin(), quarters.end(), cuts.begin());
    return cuts;
}

void cut_range(Plan& plan,
               std::uint64_t range,
               const std::vector<std::uint64_t>& cuts,
               const std::vector<std::uint32_t>& owners) {
    if (cuts.empty()) return;
    const std::uint64_t first = plan.parts.empty() ? 0 : plan.parts.back().range().end();
    const std::uint64_t all = owners.size() * cuts.back();
    std::uint64_t position = first;
    std::uint64_t before = 0;
    for (const std::uint64_t cut : cuts) {
        for (std::size_t turn = 0; turn < owners.size(); ++turn) {
            const std::uint64_t until = before * owners.size() + (cut - before) * (turn + 1);
            const std::uint64_t end = first + range * until / all;
            if (end > position) plan.parts.push_back({position, end - position, owners[turn]});
            position = end;
        }
        before = cut;
    }
}

}  // namespace dedloc::averaging
