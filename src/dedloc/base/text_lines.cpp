#include "dedloc/base/text_lines.h"

#include <algorithm>

#include "dedloc/base/composed.h"
#include "dedloc/base/printable.h"

namespace dedloc::base {
namespace {

constexpr std::string_view utf8_mark = "\xEF\xBB\xBF";
constexpr std::string_view blanks = " \t";

bool is_utf16(std::string_view file) {
    using namespace std::string_view_literals;
    return file.starts_with("\xFF\xFE"sv) || file.starts_with("\xFE\xFF"sv) ||
           (file.size() >= 2 && ((file[0] == 0) != (file[1] == 0)));
}

}  // namespace

Result<std::string_view> text_of_file(std::string_view file) {
    if (is_utf16(file))
        return make_error(ErrorKind::bad_input,
                          "it is UTF-16, as some editors write by default: save it as UTF-8");
    if (file.starts_with(utf8_mark)) file.remove_prefix(utf8_mark.size());
    std::size_t line = 1;
    for (std::size_t at = 0; at < file.size();) {
        if (file[at] == '\n') ++line;
        const Letter letter = first_letter(file.substr(at));
        if (letter.code == 0)
            return make_error(
                ErrorKind::bad_input,
                "line {}: byte {} is not UTF-8: save the file as UTF-8, or convert it, "
                "for example with iconv",
                line,
                at);
        at += letter.bytes;
    }
    return file;
}

std::string_view take_line(std::string_view& text) {
    const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    const std::string_view line = text.substr(0, end);
    const bool two = text.substr(end).starts_with("\r\n");
    text.remove_prefix(std::min(text.size(), end + (two ? 2 : 1)));
    return line;
}

Result<TextLines> TextLines::of(std::string_view file) {
    DEDLOC_TRY(const std::string_view text, text_of_file(file));
    return TextLines(text);
}

std::optional<TextLine> TextLines::next() {
    while (!rest_.empty()) {
        std::string_view line = take_line(rest_);
        ++number_;
        const std::size_t first = line.find_first_not_of(blanks);
        if (first == std::string_view::npos) continue;
        line = line.substr(first, line.find_last_not_of(blanks) - first + 1);
        return TextLine{number_, composed(line)};
    }
    return std::nullopt;
}

}  // namespace dedloc::base
