#include "dedloc/monitor/lines.h"

#include <algorithm>
#include <utility>

namespace dedloc::monitor {
namespace {

std::string_view code_of(Ink ink) {
    switch (ink) {
        case Ink::bold:
            return "\x1b[1m";
        case Ink::dim:
            return "\x1b[2m";
        case Ink::green:
            return "\x1b[32m";
        case Ink::red:
            return "\x1b[31m";
        case Ink::yellow:
            return "\x1b[33m";
        case Ink::cyan:
            return "\x1b[36m";
        case Ink::plain:
            break;
    }
    return {};
}

}  // namespace

std::size_t columns_of(const Line& line) {
    std::size_t sum = 0;
    for (const Span& span : line) sum += columns(span.text);
    return sum;
}

Line cut_line(const Line& line, std::size_t width) {
    Line out;
    std::size_t used = 0;
    for (const Span& span : line) {
        if (used >= width) break;
        out.push_back({base::cut_to_columns(span.text, width - used), span.ink});
        used += columns(out.back().text);
    }
    return out;
}

bool put_right(Line& line, std::string text, std::size_t width, Ink ink) {
    const std::size_t used = columns_of(line);
    if (used + 2 + columns(text) > width) return false;
    line.push_back({std::string(width - used - columns(text), ' '), Ink::plain});
    line.push_back({std::move(text), ink});
    return true;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width, std::size_t lines_max) {
    std::vector<std::string> lines;
    std::string line;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        const std::string_view word = text.substr(0, end);
        const bool fits = line.empty() || columns(line) + 1 + columns(word) <= width;
        if (!fits && lines.size() + 1 == lines_max) break;
        if (!fits) lines.push_back(std::exchange(line, {}));
        if (!line.empty()) line += ' ';
        line += word;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (!text.empty()) line += " " + std::string(text);
    lines.push_back(base::cut_to_columns(line, width));
    return lines;
}

std::string to_text(const Line& line, bool colored) {
    std::string out;
    for (const Span& span : line) {
        const std::string_view code = colored ? code_of(span.ink) : std::string_view();
        if (!code.empty()) out += code;
        out += span.text;
        if (!code.empty()) out += "\x1b[0m";
    }
    if (!colored) out.erase(out.find_last_not_of(' ') + 1);
    return out;
}

}  // namespace dedloc::monitor
