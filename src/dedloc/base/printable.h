// Makes texts that others wrote fit for a terminal: peers, foreign run files.
//
// A terminal obeys control characters, be they of one byte (C0, DEL) or of two in UTF-8 (C1: U+009B
// is "escape ["), and after marks that turn the direction of writing a line reads as another one.
// They become '?', white space a space; so does each byte that is no UTF-8. Other letters stay.
//
// Thread: any.

#pragma once
#include <string>
#include <string_view>

namespace dedloc::base {

// On one line; text beyond `bytes_max` is cut at a letter.
std::string printable(std::string_view text, std::size_t bytes_max = std::string_view::npos);

// Lines stay lines.
std::string printable_lines(std::string_view text);

// For tables, whose columns stay where they are (columns.h): letters of all scripts, each with at
// most letter_marks_max marks over and under it. Nothing that is not seen and no mark that changes
// how the terminal draws its neighbours; a letter of private use becomes '?'.
inline constexpr std::size_t letter_marks_max = 4;  // as many as any script writes
std::string printable_columns(std::string_view text,
                              std::size_t bytes_max = std::string_view::npos);

struct Letter {
    char32_t code;  // 0, which is no printable one either: the byte belongs to no letter
    std::size_t bytes;
};
// The first one of a text in UTF-8 that is not empty (RFC 3629: the shortest form, no surrogates).
Letter first_letter(std::string_view text);

// There is nothing in it that printable() would not let through.
bool is_printable(std::string_view text);

}  // namespace dedloc::base
