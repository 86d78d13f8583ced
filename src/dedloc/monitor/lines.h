// Lines of a terminal's picture: spans of text with a colour, and what fits a width.
//
// Thread: any; values. Cost: linear in the text.

#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/columns.h"

namespace dedloc::monitor {

using base::columns;

enum class Ink { plain, bold, dim, green, red, yellow, cyan };

struct Span {
    std::string text;
    Ink ink = Ink::plain;
};
using Line = std::vector<Span>;

struct Charset {
    bool unicode = true;  // else bars and sparkline in ASCII
};

std::size_t columns_of(const Line& line);
Line cut_line(const Line& line, std::size_t width);

// `line`, then `text` at the right edge if there is room; whether there was.
bool put_right(Line& line, std::string text, std::size_t width, Ink ink);

// Words on lines of at most `width` columns. Where they are too many the last line ends with "~".
std::vector<std::string> wrapped(std::string_view text, std::size_t width, std::size_t lines_max);

// With the escape sequences of ECMA-48 colours, or without.
std::string to_text(const Line& line, bool colored);

}  // namespace dedloc::monitor
