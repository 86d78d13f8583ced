// The page's files, compiled in from src/dedloc/web/page/ (cmake/DedlocEmbed.cmake). Another module
// has a page of its own, and a function of the same name; page/shared/ is in both.
//
// Thread: any.

#pragma once
#include <span>
#include <string_view>

namespace dedloc::web {

struct PageFile {
    std::string_view name;  // "index.html"
    std::string_view bytes;
};
std::span<const PageFile> page_files();

// By a request's path, "/" or "/page.js"; null: there is none.
const PageFile* page_file(std::string_view path, std::span<const PageFile> of = page_files());
std::string_view content_type(const PageFile& file);

}  // namespace dedloc::web
