#include "dedloc/base/edit_distance.h"

#include <gtest/gtest.h>

namespace dedloc::base {
namespace {

TEST(EditDistance, counts_letters_changed_put_in_or_taken_out) {
    EXPECT_EQ(edit_distance("", ""), 0u);
    EXPECT_EQ(edit_distance("host", "hots"), 2u);
    EXPECT_EQ(edit_distance("thread", "threads"), 1u);
    EXPECT_EQ(edit_distance("simulate", "relate"), 4u);
}

TEST(DidYouMean, names_the_word_that_is_near_and_nothing_else) {
    const std::vector<std::string> commands{"host", "join", "simulate"};
    EXPECT_EQ(did_you_mean("jion", commands), "; did you mean 'join'?");
    EXPECT_EQ(did_you_mean("simulat", commands), "; did you mean 'simulate'?");
    EXPECT_EQ(did_you_mean("nosuch", commands), "");
    EXPECT_EQ(did_you_mean("--thread", {"--threads", "--dir"}), "; did you mean '--threads'?");
    EXPECT_EQ(did_you_mean(std::string(1000, 'x'), commands), "");
    EXPECT_EQ(did_you_mean("x", {}), "");
}

}  // namespace
}  // namespace dedloc::base
