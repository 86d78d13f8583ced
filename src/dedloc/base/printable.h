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

// For tables: letters beyond U+052F become '?' as well, because their width on a screen is not
// known here, and so do marks that take no column.
std::string printable_columns(std::string_view text, std::size_t bytes_max);

// There is nothing in it that printable() would not let through.
bool is_printable(std::string_view text);

}  // namespace dedloc::base
