#include "dedloc/images/emoji_names.h"

#include <gtest/gtest.h>

namespace dedloc::images {
namespace {

constexpr std::string_view list =
    "# subgroup: person\n"
    "1F6B6 1F3FB ; fully-qualified # x\n1F6B6 1F3FC ; fully-qualified # x\n"
    "1F6B6 1F3FD ; fully-qualified # x\n1F6B6 1F3FE ; fully-qualified # x\n"
    "1F6B6 1F3FF ; fully-qualified # x\n"
    "2764 FE0F ; fully-qualified # x\n2764 ; unqualified # x\n";

constexpr std::string_view annotations =
    "<ldml>\n<annotation cp=\"❤\">heart | red</annotation>\n"
    "<annotation cp=\"❤\" type=\"tts\">red &amp; heart</annotation>\n"
    "<annotation cp=\"🚶🏻\" type=\"tts\">walking: light skin tone</annotation>\n"
    "<annotation cp=\"🚶🏼\" type=\"tts\">walking: medium-light skin tone</annotation>\n"
    "<annotation cp=\"🚶🏽\" type=\"tts\">walking: medium skin tone, red hair</annotation>\n"
    "<annotation cp=\"🚶🏾\" type=\"tts\">walking: medium-dark skin tone</annotation>\n"
    "<annotation cp=\"🚶🏿\" type=\"tts\">walking: dark skin tone, light skin "
    "tone</annotation>\n";

TEST(EmojiNames, come_from_the_annotations_with_figure_and_tone) {
    auto emoji = parse_emoji_list(list);
    ASSERT_TRUE(emoji) << to_string(emoji.error());
    ASSERT_EQ(emoji->size(), 6u);
    EmojiNames names;
    ASSERT_TRUE(add_emoji_names(annotations, names));
    name_emoji(names, names, *emoji);
    ASSERT_EQ(emoji->size(), 6u);
    EXPECT_EQ((*emoji)[0].figure, "walking");
    EXPECT_EQ((*emoji)[0].tone, "light");
    EXPECT_EQ((*emoji)[2].figure, "walking: red hair");
    EXPECT_EQ((*emoji)[2].tone, "medium");
    EXPECT_EQ((*emoji)[4].tone, "");
    EXPECT_EQ((*emoji)[5].caption, "red & heart");
}

TEST(EmojiNames, hold_out_one_tone_of_a_figure_that_has_all_five) {
    std::vector<Emoji> emoji;
    EmojiNames names;
    for (const char32_t figure : {U'a', U'b', U'c'})
        for (char32_t tone = 0; tone < 5; ++tone) {
            emoji.push_back({.code_points = {figure, 0x1f3fb + tone}});
            const char* words[] = {"light", "medium-light", "medium", "medium-dark", "dark"};
            names[utf8_of(emoji.back().code_points, false)] =
                fmt::format("{}: {} skin tone", static_cast<char>(figure), words[tone]);
        }
    name_emoji(names, names, emoji);
    std::string held;
    for (const Emoji& one : emoji)
        if (one.held_out) held += one.caption + ";";
    EXPECT_EQ(held, "a: light skin tone;c: medium-light skin tone;");
}

TEST(EmojiNames, of_files_of_another_kind_are_refused) {
    EXPECT_FALSE(parse_emoji_list("hello\n"));
    EXPECT_FALSE(parse_emoji_list("XYZ ; fully-qualified\n"));
    EmojiNames names;
    EXPECT_FALSE(add_emoji_names("<html>", names));
}

}  // namespace
}  // namespace dedloc::images
