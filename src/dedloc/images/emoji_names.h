// The emoji of Unicode with their names in a language: captions for pictures of a font.
//
// Inputs are Debian's files: emoji-test.txt (package unicode-data) and CLDR's annotations
// (unicode-cldr-core), both text. Thread: any. Errors: bad_input  a file has not this shape.

#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::images {

struct Emoji {
    std::vector<char32_t> code_points;
    std::string caption{};  // "woman running: dark skin tone"
    std::string figure{};   // the caption without its one skin tone: "woman running"
    std::string tone{};     // "dark"; empty: none, or several
    bool held_out = false;
};

// Emoji that are fully qualified, in the file's order, without names.
Result<std::vector<Emoji>> parse_emoji_list(std::string_view text);

// Short names by the emoji in UTF-8, without variation selectors, from files of annotations.
using EmojiNames = std::map<std::string, std::string>;
Ok add_emoji_names(std::string_view annotations, EmojiNames& names);

// Captions, figures and tones; emoji without a name are dropped. `english` parts figure and tone in
// every language. Of every second figure that has all five tones one is held out, the tones in
// turn: figure and tone have both been seen, but not together.
void name_emoji(const EmojiNames& names, const EmojiNames& english, std::vector<Emoji>& emoji);

std::string utf8_of(const std::vector<char32_t>& code_points, bool with_variation_selectors);

}  // namespace dedloc::images
