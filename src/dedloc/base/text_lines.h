// Reads lists that people wrote, with whatever editor on whatever system: captions, names, labels,
// prompts. A byte order mark is no part of the text, lines end as on any system, and what looks
// alike is alike (composed.h).
//
// Errors: bad_input, in a sentence that says what to do. Thread: any.

#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "dedloc/base/result.h"

namespace dedloc::base {

// The text of a file, without its byte order mark. Errors: it is UTF-16, or no UTF-8.
Result<std::string_view> text_of_file(std::string_view file);

// Takes the first line off. It ends with "\n", "\r\n", "\r" or the text, and is without its end.
std::string_view take_line(std::string_view& text);

struct TextLine {
    std::size_t number = 0;  // from 1, blank ones counted
    std::string text;        // composed
};

class TextLines {
  public:
    // `file` is only looked at, and must live as long.
    static Result<TextLines> of(std::string_view file);

    // The next line that has more than blanks, without those around it; none: the file has ended.
    std::optional<TextLine> next();

  private:
    explicit TextLines(std::string_view text) : rest_(text) {}

    std::string_view rest_;
    std::size_t number_ = 0;
};

}  // namespace dedloc::base
