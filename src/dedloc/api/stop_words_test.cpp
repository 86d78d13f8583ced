#include "dedloc/api/stop_words.h"

#include <gtest/gtest.h>

namespace dedloc::api {
namespace {

std::string shown(StopWords& words, const std::vector<std::string>& pieces) {
    std::string text;
    for (const std::string& piece : pieces) text += words.add(piece);
    return text + words.finish();
}

TEST(StopWords, end_the_text_before_the_first_of_them) {
    StopWords words({"\n\n", "User:"});
    EXPECT_EQ(shown(words, {"a\n", "b User", ": c\n\n"}), "a\nb ");
    EXPECT_TRUE(words.found());
    EXPECT_EQ(words.add("more"), "");
}

TEST(StopWords, show_no_part_of_themselves_and_hold_back_nothing_else) {
    StopWords words({"stop"});
    EXPECT_EQ(words.add("it s"), "it ");
    EXPECT_EQ(words.add("to"), "");
    EXPECT_EQ(words.add("ol, st"), "stool, ");
    EXPECT_EQ(words.finish(), "st");
    EXPECT_FALSE(words.found());
}

TEST(StopWords, are_found_in_a_word_that_begins_like_itself) {
    StopWords words({"aab"});
    EXPECT_EQ(shown(words, {"a", "a", "a", "b", "c"}), "a");
}

TEST(StopWords, let_all_pass_where_there_are_none) {
    StopWords words({});
    EXPECT_EQ(shown(words, {"all ", "of it"}), "all of it");
}

}  // namespace
}  // namespace dedloc::api
