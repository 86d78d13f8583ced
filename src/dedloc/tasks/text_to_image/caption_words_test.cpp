#include "dedloc/tasks/text_to_image/caption_words.h"

#include <gtest/gtest.h>

namespace dedloc::tasks {
namespace {

TEST(CaptionWords, are_numbered_by_how_often_they_come) {
    const std::vector<std::string> captions = {"Cat: red hat", "cat, blue hat", "cat", "ভালো cat"};
    const auto words = CaptionWords::of(captions, 100);
    ASSERT_TRUE(words) << to_string(words.error());
    EXPECT_EQ(words->size(), 2u + 7u);
    EXPECT_EQ(words->encode("CAT hat", 4), (std::vector<std::int64_t>{2, 3, 0, 0}));
    EXPECT_EQ(words->encode("cat dog cat", 2), (std::vector<std::int64_t>{2, 1}));
    EXPECT_EQ(words->unknown("a cat: green ভালো hat"), (std::vector<std::string>{"a", "green"}));
    EXPECT_EQ(CaptionWords::of(captions, 1)->size(), 3u);
    EXPECT_FALSE(CaptionWords::of(std::vector<std::string>{" ", ""}, 5));
}

TEST(CaptionWords, keep_their_numbers_on_the_way_to_others) {
    const std::vector<std::string> captions = {"red hat", "red cat", "red"};
    const auto words = CaptionWords::of(captions, 100);
    ASSERT_TRUE(words);
    const auto again = CaptionWords::numbered(words->words());
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(again->encode("hat cat red", 3), words->encode("hat cat red", 3));
    EXPECT_FALSE(CaptionWords::numbered(std::vector<std::string>{"a", "a"}));
    EXPECT_FALSE(CaptionWords::numbered(std::vector<std::string>{}));
}

}  // namespace
}  // namespace dedloc::tasks
