#include "dedloc/tasks/eval_texts.h"

#include <gtest/gtest.h>

namespace dedloc::tasks {
namespace {

TEST(EvalTexts, questions_are_read_line_by_line) {
    const auto questions = questions_in(
        "{\"prompt\": \"Two and two are\", \"choices\": [\"four\", \"five\"], \"answer\": 0}\n"
        "\n"
        "{\"prompt\": \"Say \", \"choices\": [\"a\", \"b\", \"c\"], \"answer\": 2}\n");
    ASSERT_TRUE(questions) << questions.error().message();
    ASSERT_EQ(questions->size(), 2u);
    EXPECT_EQ(questions->at(1).answer, 2u);
    const auto texts = texts_of(*questions);
    ASSERT_EQ(texts.size(), 5u);
    EXPECT_EQ(texts[0].text, " four");
    EXPECT_EQ(texts[2].text, "a") << "the prompt ends with a space";
}

TEST(EvalTexts, a_line_that_is_no_question_is_named) {
    for (const char* bad : {"{}",
                            "no json",
                            R"({"prompt": "a", "choices": ["b"], "answer": 0})",
                            R"({"prompt": "a", "choices": ["b", ""], "answer": 0})",
                            R"({"prompt": "a", "choices": ["b", "c"], "answer": 2})",
                            R"({"prompt": "a", "choices": ["b", "c"], "answer": -1})",
                            R"({"prompt": 1, "choices": ["b", "c"], "answer": 0})"}) {
        const std::string text =
            std::string(R"({"prompt": "a", "choices": ["b", "c"], "answer": 1})") + "\n" + bad;
        const auto questions = questions_in(text);
        ASSERT_FALSE(questions) << bad;
        EXPECT_NE(questions.error().message().find("line 2"), std::string::npos) << bad;
    }
    EXPECT_FALSE(questions_in("\n"));
}

TEST(EvalTexts, the_likeliest_choice_counts_whole_and_by_its_bytes) {
    const std::vector<Question> questions = {
        {.prompt = "a", .choices = {"b", "a long one"}, .answer = 1},
        {.prompt = "a", .choices = {"b", "c", "d", "e"}, .answer = 0}};
    const auto cost = [](double nats) { return TextScore{.nats = nats, .tokens = 1}; };
    const std::vector<TextScore> of_texts = {cost(3), cost(6), cost(1), cost(2), cost(2), cost(2)};
    const auto measures = choice_measures(questions, of_texts);
    EXPECT_DOUBLE_EQ(value_of(measures, "choices_accuracy"), 0.5);
    EXPECT_DOUBLE_EQ(value_of(measures, "choices_accuracy_by_byte"), 1);
    EXPECT_DOUBLE_EQ(value_of(measures, "choices_chance"), (0.5 + 0.25) / 2);
}

TEST(EvalTexts, perplexity_is_of_a_token) {
    const auto measures = perplexity_measures({.nats = 8, .tokens = 4, .bytes = 16});
    EXPECT_NEAR(value_of(measures, "perplexity"), 7.389, 1e-3);
    EXPECT_NEAR(value_of(measures, "bits_per_byte"), 8 / 0.693147 / 16, 1e-4);
}

}  // namespace
}  // namespace dedloc::tasks
