// `lab links` wants this of a setup; checked without the links.

#include "tests/netns/links.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dedloc::lab {
namespace {

using Json = nlohmann::ordered_json;

LinksCommand of_setup(const std::string& name) {
    LinksCommand command;
    command.setup = name;
    return command;
}

std::vector<std::string> missed(const LinksCommand& command, const Json& measured) {
    std::vector<std::string> sentences;
    for (const Bound& bound : bounds_of(command, measured))
        if (!bound.holds()) sentences.push_back(bound.text());
    return sentences;
}

TEST(Links, a_setup_has_to_reach_its_targets_without_being_told_them) {
    const Json good{{"included", 1.0}, {"ratio_to_plan", 1.14}, {"speedup_over_equal", 1.86}};
    EXPECT_TRUE(missed(of_setup("C"), good).empty());
    const Json slow{{"included", 1.0}, {"ratio_to_plan", 1.16}, {"speedup_over_equal", 1.84}};
    const auto sentences = missed(of_setup("C"), slow);
    ASSERT_EQ(sentences.size(), 2u);
    EXPECT_EQ(sentences[0], "ratio_to_plan is 1.160, wanted is at most 1.150");
    EXPECT_EQ(sentences[1], "speedup_over_equal is 1.840, wanted is at least 1.850");
    EXPECT_EQ(missed(of_setup("A"), slow).size(), 1u) << "only C's gain is a target";
}

TEST(Links, aggregators_must_help_as_planned) {
    Json json{{"included", 1.0},
              {"ratio_to_plan", 1.0},
              {"speedup_of_aggregators", 1.53},
              {"speedup_of_aggregators_planned", 1.75}};
    EXPECT_TRUE(missed(of_setup("aux"), json).empty());
    json["speedup_of_aggregators"] = 1.51;
    EXPECT_EQ(missed(of_setup("aux"), json).size(), 1u);
    json.erase("speedup_of_aggregators");
    EXPECT_EQ(missed(of_setup("aux"), json).size(), 1u) << "nobody measured it";
}

TEST(Links, given_bounds_take_the_place_of_the_usual_ones_and_zero_is_none) {
    const Json json{{"included", 1.0}, {"ratio_to_plan", 1.3}, {"speedup_over_equal", 1.5}};
    LinksCommand command = of_setup("C");
    command.ratio_max = 1.4;
    command.speedup_min = 1.4;
    EXPECT_TRUE(missed(command, json).empty());
    command.ratio_max = 0;
    command.speedup_min = 1.6;
    EXPECT_EQ(missed(command, json).size(), 1u);
}

TEST(Links, a_contribution_that_was_left_out_is_missed_without_a_setup_too) {
    EXPECT_TRUE(missed(of_setup(""), Json{{"included", 1.0}}).empty());
    EXPECT_EQ(missed(of_setup(""), Json{{"included", 0.9}}).size(), 1u);
}

TEST(Links, a_bound_on_what_is_not_measured_is_refused) {
    LinksCommand command;
    command.round_trip_ms = 50;
    command.ratio_max = 1.1;
    EXPECT_EQ(run_links(command), 2);
    command.ratio_max.reset();
    command.speedup_min = 1.1;
    EXPECT_EQ(run_links(command), 2);
    command = of_setup("aux");
    command.speedup_min = 1.1;
    EXPECT_EQ(run_links(command), 2);
}

TEST(Links, the_planned_time_is_that_of_the_codecs_bytes) {
    EXPECT_DOUBLE_EQ(*codec_share("fp16", 2), 1);
    EXPECT_DOUBLE_EQ(*codec_share("fp32", 2), 2);
    EXPECT_NEAR(*codec_share("blockwise8", 2), 0.502, 0.001);
}

}  // namespace
}  // namespace dedloc::lab
