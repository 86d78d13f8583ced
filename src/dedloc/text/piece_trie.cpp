#include "dedloc/text/piece_trie.h"

#include <algorithm>

namespace dedloc::text {

namespace {

constexpr std::size_t letters = 256;

struct Range {  // of sorted entries that share their first `depth` bytes
    std::size_t begin;
    std::size_t end;
    std::size_t depth;
    std::int32_t node;
};

}  // namespace

void PieceTrie::reserve_for(std::int32_t base) {
    const std::size_t needed = static_cast<std::size_t>(base) + letters;
    if (units_.size() < needed) units_.resize(std::max(needed, units_.size() * 3 / 2));
}

std::int32_t PieceTrie::find_base(const std::vector<unsigned char>& labels) {
    while (search_from_ < units_.size() && units_[search_from_].parent >= 0) ++search_from_;
    std::size_t tried = 0;
    for (std::size_t place = std::max<std::size_t>(search_from_, labels[0] + 1u);;
         ++place, ++tried) {
        // A crowded stretch is given up, or building would take square time.
        if (tried == 4096) search_from_ = place;
        const auto base = static_cast<std::int32_t>(place - labels[0]);
        reserve_for(base);
        const bool free = std::all_of(labels.begin(), labels.end(), [&](unsigned char label) {
            return units_[static_cast<std::size_t>(base) + label].parent < 0;
        });
        if (free) return base;
    }
}

PieceTrie::PieceTrie(std::vector<Entry> entries) {
    std::sort(entries.begin(), entries.end());
    units_.resize(2 * letters);
    units_[0].parent = 0;
    std::vector<Range> pending{{0, entries.size(), 0, root}};
    std::vector<unsigned char> labels;
    while (!pending.empty()) {
        const Range range = pending.back();
        pending.pop_back();
        std::size_t first = range.begin;
        if (first < range.end && entries[first].first.size() == range.depth) {
            units_[static_cast<std::size_t>(range.node)].value = entries[first].second;
            ++first;
        }
        if (first == range.end) continue;
        const auto label = [&](std::size_t i) {
            return static_cast<unsigned char>(entries[i].first[range.depth]);
        };
        labels.clear();
        for (std::size_t i = first; i < range.end; ++i)
            if (labels.empty() || labels.back() != label(i)) labels.push_back(label(i));
        const std::int32_t base = find_base(labels);
        units_[static_cast<std::size_t>(range.node)].base = base;
        for (std::size_t begin = first; begin < range.end;) {
            std::size_t end = begin;
            while (end < range.end && label(end) == label(begin)) ++end;
            const std::int32_t child = base + label(begin);
            units_[static_cast<std::size_t>(child)].parent = range.node;
            pending.push_back({begin, end, range.depth + 1, child});
            begin = end;
        }
    }
    // step() looks up to 255 places behind any base without asking.
    units_.resize(units_.size() + letters);
}

}  // namespace dedloc::text
