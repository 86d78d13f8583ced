// Names of experts: a grid's name and a coordinate on each of its axes ("ffn.98.76").
//
// hivemind's rules: letters but dots, then one or more ".<number>" without leading zeros. A prefix
// is a name cut after a dot ("ffn.98."); under it the table lists which coordinates follow.
//
// Errors: bad_input. Thread: any. Pure.

#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::experts {

inline constexpr std::size_t uid_bytes_max = 128;
inline constexpr std::size_t dimensions_max = 8;
// The longest name there can be: each coordinate takes up to ten digits and a dot.
inline constexpr std::size_t grid_name_bytes_max = uid_bytes_max - 11 * dimensions_max;
// A grid with more experts than that would need more records than a table keeps for one owner.
inline constexpr std::uint64_t experts_of_grid_max = 1u << 20;
// The subkey under which hivemind stores the only expert of a name with one coordinate.
inline constexpr std::int64_t flat_expert = -1;

struct ExpertUid {
    std::string grid;
    std::vector<std::uint32_t> coordinates;

    static Result<ExpertUid> parse(std::string_view text);
    std::string text() const;
    // The first `count` coordinates, with the dot after it.
    std::string prefix(std::size_t count) const;

    friend auto operator<=>(const ExpertUid&, const ExpertUid&) = default;
    friend bool operator==(const ExpertUid&, const ExpertUid&) = default;
};

struct ExpertGrid {
    std::string name;
    std::vector<std::uint32_t> sizes;  // of each axis

    std::uint64_t experts_count() const;
    // All names, in order: the last axis runs fastest.
    std::vector<ExpertUid> all() const;
    bool contains(const ExpertUid& uid) const;
};

// bad_input: no letters, too many of them, or a dot.
Ok check_grid_name(std::string_view name);
// bad_input: no axis, an axis without coordinates, too many experts, a name with a dot.
Ok check(const ExpertGrid& grid);

}  // namespace dedloc::experts
