#include "dedloc/base/edit_distance.h"

#include <algorithm>

namespace dedloc::base {

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t above = row[j];
            row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
            diagonal = above;
        }
    }
    return row[b.size()];
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
    constexpr std::size_t word_bytes_max = 64;
    std::string best;
    std::size_t best_distance = 3;
    if (word.size() > word_bytes_max) return {};
    for (const std::string& each : known)
        if (const std::size_t distance = edit_distance(word, each); distance < best_distance) {
            best_distance = distance;
            best = each;
        }
    return best.empty() ? std::string() : "; did you mean '" + best + "'?";
}

}  // namespace dedloc::base
