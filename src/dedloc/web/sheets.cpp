#include "dedloc/web/sheets.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "dedloc/base/file.h"

namespace dedloc::web {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view picture_ending = ".png";
constexpr std::string_view text_ending = ".txt";

// "150.png": 150.
std::optional<std::uint64_t> step_of(std::string_view name, std::string_view ending) {
    if (!name.ends_with(ending)) return std::nullopt;
    name.remove_suffix(ending.size());
    std::uint64_t step = 0;
    const auto [end, error] = std::from_chars(name.begin(), name.end(), step);
    if (name.empty() || error != std::errc() || end != name.end()) return std::nullopt;
    return step;
}

void keep_newest_steps(std::vector<std::uint64_t>& steps) {
    std::ranges::sort(steps);
    if (steps.size() > sheets_shown_max)
        steps.erase(steps.begin(), steps.end() - static_cast<std::ptrdiff_t>(sheets_shown_max));
}

}  // namespace

std::string sheets_folder_of(const std::string& peer_directory) {
    return fmt::format("{}/{}", peer_directory, sheets_folder_name);
}

Sheets sheets_in(const std::string& folder) {
    constexpr std::string_view begin = "step-";
    Sheets sheets;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        const std::string file = entry.path().filename().string();
        if (!file.starts_with(begin)) continue;
        const std::string_view name = std::string_view(file).substr(begin.size());
        if (const auto picture = step_of(name, picture_ending)) sheets.pictures.push_back(*picture);
        if (const auto text = step_of(name, text_ending)) sheets.texts.push_back(*text);
    }
    keep_newest_steps(sheets.pictures);
    keep_newest_steps(sheets.texts);
    return sheets;
}

Sheets Sheets::until(std::uint64_t step) const {
    Sheets before = *this;
    const auto is_later = [step](std::uint64_t one) { return one > step; };
    std::erase_if(before.pictures, is_later);
    std::erase_if(before.texts, is_later);
    return before;
}

Result<SheetFile> read_sheet(const std::string& folder, std::string_view name) {
    const auto picture = step_of(name, picture_ending);
    const auto step = picture ? picture : step_of(name, text_ending);
    if (!step || folder.empty()) return make_error(ErrorKind::not_found, "there is no such sheet");
    const std::string path =
        fmt::format("{}/step-{}{}", folder, *step, picture ? picture_ending : text_ending);
    auto bytes = base::read_file(path, picture ? picture_bytes_max : sheet_text_bytes_max);
    if (!bytes) return make_error(ErrorKind::not_found, "there is no such sheet");
    return SheetFile{.bytes = *std::move(bytes),
                     .content_type = picture ? "image/png" : "text/plain; charset=utf-8"};
}

}  // namespace dedloc::web
