#include "dedloc/web/page_files.h"

#include <array>
#include <utility>

namespace dedloc::web {

const PageFile* page_file(std::string_view path, std::span<const PageFile> of) {
    if (!path.starts_with('/')) return nullptr;
    const std::string_view name = path == "/" ? "index.html" : path.substr(1);
    for (const PageFile& file : of)
        if (file.name == name) return &file;
    return nullptr;
}

std::string_view content_type(const PageFile& file) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> types{
        {{".html", "text/html; charset=utf-8"},
         {".js", "text/javascript; charset=utf-8"},
         {".css", "text/css; charset=utf-8"},
         {".svg", "image/svg+xml"}}};
    for (const auto& [ending, type] : types)
        if (file.name.ends_with(ending)) return type;
    return "application/octet-stream";
}

}  // namespace dedloc::web
