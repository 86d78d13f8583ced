#include "dedloc/tasks/fine_tune.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

namespace dedloc::tasks {
namespace {

TEST(FineTune, a_split_by_chance_puts_each_place_into_one_part) {
    const FineTuneSplit split = split_by_chance(1000, 0.2, 0.1, 3);
    EXPECT_EQ(split.test.size(), 200u);
    EXPECT_EQ(split.evaluation.size(), 80u);
    std::set<std::size_t> all(split.train.begin(), split.train.end());
    all.insert(split.evaluation.begin(), split.evaluation.end());
    all.insert(split.test.begin(), split.test.end());
    EXPECT_EQ(all.size(), 1000u);
    EXPECT_NE(split.test, split_by_chance(1000, 0.2, 0.1, 4).test);
    EXPECT_EQ(split.test, split_by_chance(1000, 0.2, 0.1, 3).test);
}

TEST(FineTune, a_split_by_names_shows_no_name_of_the_test_before) {
    std::vector<text::LabelledSentence> sentences;
    for (int i = 0; i < 300; ++i)
        sentences.push_back(
            {{"and", "name" + std::to_string(i % 50), "said"}, {"O", "B-PER", "O"}});
    const FineTuneSplit split = split_by_names(sentences, 5);
    std::set<std::string> seen;
    for (const std::size_t i : split.train) seen.insert(sentences[i].words[1]);
    for (const std::size_t i : split.evaluation) seen.insert(sentences[i].words[1]);
    ASSERT_FALSE(split.test.empty());
    for (const std::size_t i : split.test) EXPECT_FALSE(seen.contains(sentences[i].words[1]));
}

TEST(FineTune, a_bag_of_words_tells_texts_by_their_words) {
    FineTuneData data;
    data.kind = FineTuneKind::classes;
    data.labels = {"sea", "land"};
    for (std::size_t i = 0; i < 40; ++i)
        data.texts.push_back({i % 2 == 0 ? "waves and fish" : "hills and sheep", i % 2});
    const FineTuneSplit split = split_by_chance(data.size(), 0.25, 0.1, 1);
    EXPECT_EQ(bag_of_words_accuracy(data, split), 1.0);
    EXPECT_LT(majority_share(data, split), 1.0);
}

TEST(FineTune, a_deviation_is_that_of_a_sample) {
    const MeanAndDeviation spread = mean_and_deviation({1, 2, 3, 4});
    EXPECT_DOUBLE_EQ(spread.mean, 2.5);
    EXPECT_NEAR(spread.deviation, 1.2909944487, 1e-9);
    EXPECT_EQ(mean_and_deviation({7}).deviation, 0);
}

}  // namespace
}  // namespace dedloc::tasks
