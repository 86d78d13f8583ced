#include "dedloc/text/entity_score.h"

#include <gtest/gtest.h>

namespace dedloc::text {
namespace {

using Labels = std::vector<std::string>;

TEST(Entities, begin_at_b_and_go_on_with_the_same_type) {
    EXPECT_EQ(entities_of({"B-PER", "I-PER", "O", "B-LOC", "B-LOC"}),
              (std::vector<Entity>{{"PER", 0, 1}, {"LOC", 3, 3}, {"LOC", 4, 4}}));
    EXPECT_TRUE(entities_of({}).empty());
    EXPECT_TRUE(entities_of({"O", "O"}).empty());
}

TEST(Entities, of_broken_predictions_begin_at_an_i_that_follows_nothing_of_its_type) {
    EXPECT_EQ(entities_of({"I-PER", "I-PER", "I-LOC", "O", "I-LOC"}),
              (std::vector<Entity>{{"PER", 0, 1}, {"LOC", 2, 2}, {"LOC", 4, 4}}));
}

TEST(Entities, keep_hyphens_in_their_type) {
    EXPECT_EQ(entities_of({"B-a-b", "I-a-b"}), (std::vector<Entity>{{"a-b", 0, 1}}));
    EXPECT_EQ(entities_of({"B", "I"}), (std::vector<Entity>{{"_", 0, 1}}));
}

// Computed by hand: truth has PER(0-1), LOC(3); the prediction finds PER, cuts LOC's neighbour.
TEST(EntityScore, counts_whole_entities_and_single_words) {
    EntityScore score;
    score.add({"B-PER", "I-PER", "O", "B-LOC"}, {"B-PER", "I-PER", "B-LOC", "I-LOC"});
    EXPECT_EQ(score.total().found, 1u);
    EXPECT_DOUBLE_EQ(score.total().precision(), 0.5);
    EXPECT_DOUBLE_EQ(score.total().recall(), 0.5);
    EXPECT_DOUBLE_EQ(score.total().f1(), 0.5);
    EXPECT_DOUBLE_EQ(score.accuracy(), 0.5);
    EXPECT_EQ(score.by_type().at("LOC").found, 0u);
    EXPECT_EQ(score.by_type().at("PER").found, 1u);
}

TEST(EntityScore, of_nothing_found_and_nothing_there_is_zero_and_no_division) {
    EntityScore score;
    EXPECT_EQ(score.total().f1(), 0);
    score.add({"O"}, {"O"});
    EXPECT_EQ(score.total().f1(), 0);
    EXPECT_EQ(score.accuracy(), 1);
}

TEST(EntityScore, does_not_join_entities_of_two_sentences) {
    EntityScore score;
    score.add({"B-PER"}, {"B-PER"});
    score.add({"O"}, {"I-PER"});
    EXPECT_EQ(score.total().predicted, 2u);
    EXPECT_EQ(score.total().present, 1u);
}

}  // namespace
}  // namespace dedloc::text
