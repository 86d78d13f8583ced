#include "dedloc/templates/run_file_settings.h"

#include <gtest/gtest.h>

#include "dedloc/templates/run_templates.h"

namespace dedloc::templates {
namespace {

constexpr std::string_view plain_file = R"(name = "a run"  # of ours

[batch]
target = 1024  # samples, "all" of them
micro = 64

[stop]
steps = 10
)";

std::string set_in_plain(std::vector<std::string> settings) {
    const auto text = with_settings(std::string(plain_file), settings, "run.toml");
    return text ? *text : "refused: " + text.error().message();
}

TEST(RunFileSettings, a_value_takes_the_place_of_the_one_there_and_the_comment_stays) {
    const std::string text = set_in_plain({"batch.target=2048", "name=another"});
    EXPECT_NE(text.find("target = 2048  # samples, \"all\" of them\n"), std::string::npos) << text;
    EXPECT_NE(text.find("name = \"another\"  # of ours\n"), std::string::npos) << text;
    EXPECT_NE(text.find("micro = 64\n"), std::string::npos) << text;
}

TEST(RunFileSettings, what_is_not_there_is_added_to_its_section_or_with_it) {
    const std::string text = set_in_plain({"stop.accuracy=0.9",
                                           "optimizer.kind=adamw",
                                           "averaging.delayed=true",
                                           "averaging.quorum_timeout=10s",
                                           "batch.micro=auto"});
    const auto run = run::parse_run_file(text, "run.toml");
    ASSERT_TRUE(run) << run.error().message() << text;
    EXPECT_DOUBLE_EQ(run->stop.accuracy, 0.9);
    EXPECT_EQ(run->stop.steps, 10u);
    EXPECT_EQ(run->optimizer.kind, optim::OptimizerKind::adamw);
    EXPECT_TRUE(run->averaging.delayed);
    EXPECT_EQ(run->averaging.quorum_timeout, std::chrono::seconds(10));
    EXPECT_EQ(run->batch.micro, run::micro_auto);
}

TEST(RunFileSettings, sections_in_sections_and_settings_that_need_each_other_are_taken) {
    const std::string text =
        set_in_plain({"local.optimizer.kind=adamw", "local.batch=64", "local.schedule.peak=0.001"});
    const auto run = run::parse_run_file(text, "run.toml");
    ASSERT_TRUE(run) << text;
    ASSERT_TRUE(run->local);
    EXPECT_EQ(run->local->batch, 64u);
}

TEST(RunFileSettings, what_is_wrong_is_told_in_the_run_files_words) {
    EXPECT_EQ(set_in_plain({"batch.traget=5"}),
              "refused: --set batch.traget=5: unknown key 'batch.traget'; did you mean "
              "'batch.target'?");
    EXPECT_EQ(set_in_plain({"stop.steps=20", "batch.target=0"}),
              "refused: --set batch.target=0: 'batch.target' must be from 1 to 4294967296, not 0");
    EXPECT_NE(set_in_plain({"batch.target=many"}).find("must be a whole number"),
              std::string::npos);
    for (const char* wrong : {"batch.target", "batch.target=", "=5", "[batch]=5", "a b=5"})
        EXPECT_NE(set_in_plain({wrong}).find("is no setting"), std::string::npos) << wrong;
}

TEST(RunFileSettings, templates_take_settings_and_every_task_has_a_small_size) {
    for (const std::string task : {"synthetic", "albert", "swav", "vision_classifier"}) {
        const auto small = run_template(task, "small");
        ASSERT_TRUE(small) << task;
        const std::vector<std::string> settings = {"batch.target=96", "stop.steps=7"};
        const auto text = with_settings(*small, settings, "run.toml");
        ASSERT_TRUE(text) << text.error().message();
        const auto run = run::parse_run_file(*text, "run.toml");
        ASSERT_TRUE(run);
        EXPECT_EQ(run->batch.target, 96u) << task;
        EXPECT_EQ(run->stop.steps, 7u) << task;
    }
    const auto unknown = run_template("albert", "huge");
    ASSERT_FALSE(unknown);
    EXPECT_NE(unknown.error().message().find("known: small"), std::string::npos);
}

}  // namespace
}  // namespace dedloc::templates
