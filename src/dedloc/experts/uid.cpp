#include "dedloc/experts/uid.h"

#include <charconv>

#include "dedloc/base/printable.h"

namespace dedloc::experts {
namespace {

Error not_a_uid(std::string_view text) {
    return make_error(ErrorKind::bad_input,
                      "\"{}\" is no expert's name; one looks like ffn.0.12",
                      base::printable(text.substr(0, uid_bytes_max)));
}

}  // namespace

Result<ExpertUid> ExpertUid::parse(std::string_view text) {
    if (text.size() > uid_bytes_max) return not_a_uid(text);
    const std::size_t dot = text.find('.');
    if (dot == 0 || dot == std::string_view::npos) return not_a_uid(text);
    ExpertUid uid{.grid = std::string(text.substr(0, dot)), .coordinates = {}};
    std::string_view rest = text.substr(dot);
    while (!rest.empty()) {
        rest.remove_prefix(1);  // the dot
        const std::string_view digits = rest.substr(0, rest.find('.'));
        std::uint32_t number = 0;
        const auto [end, failed] =
            std::from_chars(digits.data(), digits.data() + digits.size(), number);
        const bool whole = failed == std::errc() && end == digits.data() + digits.size();
        if (!whole || (digits.size() > 1 && digits.front() == '0') ||
            uid.coordinates.size() == dimensions_max)
            return not_a_uid(text);
        uid.coordinates.push_back(number);
        rest.remove_prefix(digits.size());
    }
    return uid;
}

std::string ExpertUid::text() const {
    std::string text = prefix(coordinates.size());
    text.pop_back();
    return text;
}

std::string ExpertUid::prefix(std::size_t count) const {
    std::string text = grid + ".";
    for (std::size_t i = 0; i < count; ++i) text += std::to_string(coordinates[i]) + ".";
    return text;
}

std::uint64_t ExpertGrid::experts_count() const {
    std::uint64_t count = sizes.empty() ? 0 : 1;
    for (const std::uint32_t size : sizes) {
        if (size != 0 && count > experts_of_grid_max / size) return experts_of_grid_max + 1;
        count *= size;
    }
    return count;
}

std::vector<ExpertUid> ExpertGrid::all() const {
    std::vector<ExpertUid> uids;
    const std::uint64_t count = experts_count();
    uids.reserve(count);
    for (std::uint64_t number = 0; number < count; ++number) {
        ExpertUid uid{.grid = name, .coordinates = std::vector<std::uint32_t>(sizes.size())};
        std::uint64_t left = number;
        for (std::size_t axis = sizes.size(); axis-- > 0;) {
            uid.coordinates[axis] = static_cast<std::uint32_t>(left % sizes[axis]);
            left /= sizes[axis];
        }
        uids.push_back(std::move(uid));
    }
    return uids;
}

bool ExpertGrid::contains(const ExpertUid& uid) const {
    if (uid.grid != name || uid.coordinates.size() != sizes.size()) return false;
    for (std::size_t axis = 0; axis < sizes.size(); ++axis)
        if (uid.coordinates[axis] >= sizes[axis]) return false;
    return true;
}

Ok check_grid_name(std::string_view name) {
    if (!name.empty() && name.size() <= grid_name_bytes_max &&
        name.find('.') == std::string_view::npos)
        return {};
    return make_error(
        ErrorKind::bad_input, "a grid's name has 1 to {} letters and no dot", grid_name_bytes_max);
}

Ok check(const ExpertGrid& grid) {
    DEDLOC_TRY_VOID(check_grid_name(grid.name));
    if (grid.sizes.empty() || grid.sizes.size() > dimensions_max)
        return make_error(
            ErrorKind::bad_input, "a grid of experts has 1 to {} axes", dimensions_max);
    const std::uint64_t count = grid.experts_count();
    if (count == 0 || count > experts_of_grid_max)
        return make_error(
            ErrorKind::bad_input, "a grid holds 1 to {} experts", experts_of_grid_max);
    return {};
}

}  // namespace dedloc::experts
