// How wide text is on a terminal: letters of East Asia and pictures take two columns, marks that
// are set over or under the letter before them none.
//
// Source: Unicode 14, general categories Mn, Me, Cf and Annex 11 (East Asian Width). Some terminals
// differ for newer letters and for pictures that are made of several; a table's line is then a
// column too long, and nothing worse.
//
// Thread: any. Cost: a binary search a letter beyond ASCII.

#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace dedloc::base {

// 0, 1 or 2.
std::size_t letter_columns(char32_t code);

// Counts those of one line that went through printable() or is ours.
std::size_t columns(std::string_view text);

// At most `width` columns, cut at a letter; where something is missing the last one is a "~".
std::string cut_to_columns(std::string_view text, std::size_t width);

// Exactly `width` columns: cut, or with spaces behind it, or before it.
std::string left_in(std::string_view text, std::size_t width);
std::string right_in(std::string_view text, std::size_t width);

}  // namespace dedloc::base
