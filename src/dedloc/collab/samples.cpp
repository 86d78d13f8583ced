#include "dedloc/collab/samples.h"

#include <fmt/format.h>

namespace dedloc::collab {

std::uint64_t total_of(const WaitingSamples& waiting, std::uint64_t vector_count) {
    std::uint64_t total = 0;
    for (std::uint64_t i = 0; i < waiting.size(); ++i) {
        const auto moved = consensus::fragment_of(vector_count, waiting.size(), i);
        total += consensus::samples_on(moved, waiting[i], vector_count);
    }
    return total;
}

std::string listed(const WaitingSamples& waiting) {
    std::string list;
    for (std::size_t i = 0; i < waiting.size(); ++i)
        if (waiting[i] > 0)
            list += fmt::format("{}{} ({}{})",
                                list.empty() ? "" : ", ",
                                i,
                                waiting[i],
                                list.empty() ? " samples" : "");
    return list;
}

}  // namespace dedloc::collab
