#include "dedloc/experts/beam_search.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace dedloc::experts {
namespace {

struct Candidate {
    double score = 0;  // of the coordinates so far
    std::string prefix;
    Successors successors;
};

struct Row {
    const GridScores* scores = nullptr;
    std::vector<std::uint32_t> order;  // of the first axis, best first
    std::size_t tried = 0;             // of them
    std::vector<Candidate> beam;
};

using Answers = std::map<std::string, Successors>;

Task<Answers> ask(Directory& directory, std::set<std::string> prefixes, TimePoint deadline) {
    std::vector<std::string> list(prefixes.begin(), prefixes.end());
    std::vector<std::string> names = list;
    auto found = co_await directory.successors(std::move(list), deadline);
    Answers answers;
    for (std::size_t i = 0; i < names.size(); ++i)
        answers.emplace(std::move(names[i]), std::move(found[i]));
    co_return answers;
}

std::string first_prefix(const ExpertGrid& grid, std::uint32_t coordinate) {
    return grid.name + "." + std::to_string(coordinate) + ".";
}

// The best first coordinates under which there is anything.
Task<void> begin(Directory& directory,
                 const ExpertGrid& grid,
                 std::vector<Row>& rows,
                 std::size_t width,
                 TimePoint deadline) {
    for (;;) {
        std::set<std::string> wanted;
        for (Row& row : rows) {
            const std::size_t missing = width - std::min(width, row.beam.size());
            for (std::size_t i = 0; i < missing && row.tried + i < row.order.size(); ++i)
                wanted.insert(first_prefix(grid, row.order[row.tried + i]));
        }
        if (wanted.empty()) co_return;
        const Answers answers = co_await ask(directory, std::move(wanted), deadline);
        for (Row& row : rows) {
            const std::size_t missing = width - std::min(width, row.beam.size());
            for (std::size_t i = 0; i < missing && row.tried < row.order.size(); ++i) {
                const std::uint32_t coordinate = row.order[row.tried++];
                std::string prefix = first_prefix(grid, coordinate);
                const Successors& successors = answers.at(prefix);
                if (successors.empty()) continue;
                row.beam.push_back({.score = (*row.scores)[0][coordinate],
                                    .prefix = std::move(prefix),
                                    .successors = successors});
            }
        }
    }
}

// The beam's best continuations along the next axis.
std::vector<Candidate> extended(const Row& row, std::size_t axis, std::size_t width) {
    std::vector<Candidate> next;
    const auto& scores = (*row.scores)[axis];
    for (const Candidate& candidate : row.beam)
        for (const auto& [coordinate, location] : candidate.successors)
            if (coordinate >= 0 && static_cast<std::size_t>(coordinate) < scores.size())
                next.push_back(
                    {.score = candidate.score + scores[static_cast<std::size_t>(coordinate)],
                     .prefix = candidate.prefix + std::to_string(coordinate) + ".",
                     .successors = {}});
    const auto middle = next.begin() + static_cast<std::ptrdiff_t>(std::min(width, next.size()));
    std::partial_sort(next.begin(), middle, next.end(), [](const auto& a, const auto& b) {
        return a.score != b.score ? a.score > b.score : a.prefix < b.prefix;
    });
    next.erase(middle, next.end());
    return next;
}

std::vector<Chosen> best_of(const ExpertGrid& grid, const Row& row, std::size_t best) {
    std::vector<Chosen> chosen;
    std::set<ExpertUid> seen;
    for (const Candidate& candidate : row.beam)
        for (const auto& [coordinate, location] : candidate.successors) {
            if (!grid.contains(location.uid) || !seen.insert(location.uid).second) continue;
            chosen.push_back({.location = location, .score = score_of(location.uid, *row.scores)});
        }
    std::sort(chosen.begin(), chosen.end(), [](const Chosen& a, const Chosen& b) {
        return a.score != b.score ? a.score > b.score : a.location.uid < b.location.uid;
    });
    if (chosen.size() > best) chosen.resize(best);
    return chosen;
}

}  // namespace

double score_of(const ExpertUid& uid, const GridScores& scores) {
    double score = 0;
    for (std::size_t axis = 0; axis < uid.coordinates.size(); ++axis)
        score += scores[axis][uid.coordinates[axis]];
    return score;
}

Task<std::vector<std::vector<Chosen>>> beam_search(Directory& directory,
                                                   ExpertGrid grid,
                                                   std::vector<GridScores> scores,
                                                   BeamOptions options,
                                                   TimePoint deadline) {
    const std::size_t width = std::max(options.best, options.width);
    std::vector<Row> rows(scores.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        Row& row = rows[i];
        row.scores = &scores[i];
        const auto& first = scores[i].front();
        row.order.resize(first.size());
        std::iota(row.order.begin(), row.order.end(), 0u);
        std::stable_sort(row.order.begin(), row.order.end(), [&first](auto a, auto b) {
            return first[a] > first[b];
        });
    }
    co_await begin(directory, grid, rows, width, deadline);
    for (std::size_t axis = 1; axis + 1 < grid.sizes.size(); ++axis) {
        std::set<std::string> wanted;
        for (Row& row : rows) {
            row.beam = extended(row, axis, width);
            for (const Candidate& candidate : row.beam) wanted.insert(candidate.prefix);
        }
        if (wanted.empty()) break;
        const Answers answers = co_await ask(directory, std::move(wanted), deadline);
        for (Row& row : rows)
            for (Candidate& candidate : row.beam)
                candidate.successors = answers.at(candidate.prefix);
    }
    std::vector<std::vector<Chosen>> chosen;
    for (const Row& row : rows) chosen.push_back(best_of(grid, row, options.best));
    co_return chosen;
}

}  // namespace dedloc::experts
