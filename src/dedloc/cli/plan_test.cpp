// The networks that come with the program against the figures that are known for them, and what is
// shown of a plan.

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "dedloc/cli/commands.h"
#include "dedloc/planning/plan_classes.h"
#include "dedloc/planning/plan_json.h"
#include "dedloc/planning/plan_setups.h"
#include "dedloc/planning/plan_svg.h"
#include "dedloc/planning/plan_view.h"

namespace dedloc::cli {
namespace {

struct Planned {
    planning::PlanFile file;
    planner::LoadPlan plan;
    nlohmann::json json;
};

Planned planned(std::string_view text) {
    auto file = planning::parse_plan_file(text, "test.toml");
    EXPECT_TRUE(file) << file.error().message();
    auto plan = planner::make_plan(file->question);
    EXPECT_TRUE(plan) << plan.error().message();
    Planned all{*std::move(file), *std::move(plan), {}};
    all.json = nlohmann::json::parse(planning::plan_json(all.file, all.plan));
    return all;
}

Planned setup(std::string_view name) {
    for (const planning::PlanSetup& one : planning::plan_setups())
        if (one.name == name) return planned(one.text);
    ADD_FAILURE() << name;
    return {};
}

std::size_t count_of(std::string_view text, std::string_view word) {
    std::size_t count = 0;
    for (std::size_t at = text.find(word); at != std::string_view::npos;
         at = text.find(word, at + 1))
        ++count;
    return count;
}

TEST(PlanSetups, reach_the_ideal_times_of_the_paper) {
    // P = 25.557 M parameters in fp16; reference: the same linear programme in another program.
    const std::pair<std::string_view, double> ideals[] = {{"A", 0.72},
                                                          {"B", 3.83},
                                                          {"C", 2.04},
                                                          {"D", 2.30},
                                                          {"4-8-4", 8.18},
                                                          {"nat", 10.2},
                                                          {"aux", 20.5}};
    for (const auto& [name, seconds] : ideals) {
        const Planned one = setup(name);
        EXPECT_NEAR(one.json["seconds"].get<double>(), seconds, seconds * 0.007) << name;
        EXPECT_EQ(one.json["elements"], 25'557'032) << name;
        EXPECT_EQ(one.json.contains("seconds_without"), name == "aux");
    }
    EXPECT_NEAR(setup("aux").json["seconds_without"].get<double>(), 35.8, 0.05);
    EXPECT_NEAR(setup("C").json["speedup_over_equal"].get<double>(), 1.92, 0.01);
    EXPECT_NEAR(setup("4-8-4").json["seconds_equal"].get<double>(), 15.3, 0.05);
}

TEST(PlanSetups, behind_a_nat_is_the_same_as_unreachable_from_one_another) {
    std::string text;
    for (const planning::PlanSetup& one : planning::plan_setups())
        if (one.name == "nat") text = one.text;
    const auto at = text.find("dialable = false");
    ASSERT_NE(at, std::string::npos);
    text.replace(
        at, 16, "[links.nat]\nfrom = \"behind-nat\"\nto = \"behind-nat\"\nrate = \"none\"");
    const Planned pairs = planned(text);
    EXPECT_EQ(pairs.file.question.links.size(), 12u);
    EXPECT_DOUBLE_EQ(pairs.plan.split.seconds, setup("nat").plan.split.seconds);
}

TEST(PlanSetups, the_trainer_behind_a_modem_is_spared_and_the_ocean_is_the_bottleneck) {
    const Planned modem = setup("modem");
    EXPECT_EQ(modem.json["peers"][4]["role"], "spared");
    EXPECT_EQ(modem.json["computing"]["delayed"], false);
    EXPECT_NEAR(1 / modem.json["computing"]["steps_per_s"].get<double>(), 8.53 + 7.13, 0.02);
    EXPECT_GT(modem.json["computing"]["steps_per_s"].get<double>(),
              10 * modem.json["computing"]["steps_per_s_if_all_compute"].get<double>());
    EXPECT_EQ(modem.json["left_out"]["peers"], nlohmann::json::array({"modem"}));
    EXPECT_NEAR(modem.json["left_out"]["step_seconds"].get<double>(), 8.53 + 7.13, 0.05);
    EXPECT_GT(modem.json["left_out"]["step_seconds_of_all"].get<double>(), 200);
    EXPECT_FALSE(setup("C").json.contains("left_out")) << "no batch";
    const Planned sites = setup("two-sites");
    EXPECT_EQ(sites.json["bottleneck"]["kind"], "link");
    EXPECT_EQ(sites.json["peers"][4]["part_elements"], 0);  // osaka-1, behind the firewall
    EXPECT_EQ(sites.json["seconds_equal"], nullptr);
}

TEST(PlanSetups, homes_are_told_how_to_send_few_bytes) {
    const Planned homes = setup("homes");
    EXPECT_LT(homes.json["light"]["share_synchronous"], 0.05);
    EXPECT_GT(homes.json["light"]["share"], 0.95);
    EXPECT_EQ(homes.json["light"]["codec"], "sparse");
    EXPECT_EQ(homes.json["light"]["batch_target"].get<double>(),
              512 * homes.json["light"]["local_steps"].get<double>());
    EXPECT_FALSE(setup("C").json.contains("light")) << "no batch";
}

TEST(PlanClasses, peers_that_are_alike_share_one) {
    const Planned c = setup("C");
    const auto classes = planning::peer_classes(c.file, c.plan, 40);
    ASSERT_EQ(classes.size(), 2u);
    EXPECT_EQ(classes[0].label, "fast ×8");
    EXPECT_EQ(classes[1].label, "slow ×16");
    EXPECT_EQ(classes[0].part_elements, 25'557'032);
    EXPECT_NEAR(classes[0].busy_up, 0.75, 0.001);
    EXPECT_NEAR(classes[1].busy_down, 1, 0.001);
    const auto few = planning::peer_classes(c.file, c.plan, 1);
    ASSERT_EQ(few.size(), 1u);
    EXPECT_EQ(few[0].label, "24 others");
    EXPECT_EQ(few[0].part_elements, 25'557'032);
}

TEST(PlanView, shows_the_table_the_picture_and_the_reason) {
    const Planned d = setup("D");
    const std::string table = planning::plan_table(d.file, d.plan);
    EXPECT_EQ(count_of(table, "\n"), 3u) << table;
    EXPECT_NE(table.find("slow ×16"), std::string::npos) << table;
    EXPECT_NE(table.find("2.5 Gb/s"), std::string::npos) << table;
    EXPECT_NE(table.find("86.9 %"), std::string::npos) << table;
    const std::string picture = planning::plan_picture(d.file, d.plan);
    EXPECT_NE(picture.find("g 44.4 MB"), std::string::npos) << picture;
    EXPECT_NE(picture.find("slow-16"), std::string::npos) << picture;
    for (const std::string& sentence : d.plan.sentences)
        EXPECT_EQ(sentence.back(), '.') << sentence;
    const std::string text = planning::plan_sentences(d.plan, 60);
    EXPECT_EQ(count_of(text, "- "), d.plan.sentences.size() + count_of(text, "- -"));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 60u) << line;
}

TEST(PlanView, says_first_what_suits_the_lines_and_then_what_it_plans) {
    const Planned homes = setup("homes");
    const std::string text = planning::plan_text(homes.file, homes.plan, 96);
    const std::size_t advice =
        text.find("\nWhat suits these lines:\n  16 trainers: 15 local steps");
    const std::size_t planned = text.find(
        "\nThe plan of the file as it is (a round after every batch; 4 of 16 trainers compute):\n");
    ASSERT_NE(advice, std::string::npos) << text;
    ASSERT_NE(planned, std::string::npos) << text;
    EXPECT_LT(advice, planned);
    EXPECT_LT(planned, text.find("spared"));
    EXPECT_EQ(count_of(text, "local steps, sparse"), 1u) << text;
    std::istringstream lines(text.substr(0, text.find("spared")));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 96u) << line;
    const Planned c = setup("C");
    EXPECT_TRUE(planning::plan_text(c.file, c.plan, 96)
                    .starts_with(c.file.name + ": " + c.file.about + "\n25557032 elements"))
        << "no batch, no advice";
}

TEST(PlanSvg, draws_a_band_for_everything_that_is_sent) {
    const Planned aux = setup("aux");
    const std::string svg = planning::plan_svg(aux.file, aux.plan);
    EXPECT_TRUE(svg.starts_with("<svg "));
    EXPECT_TRUE(svg.ends_with("</svg>\n"));
    EXPECT_EQ(count_of(svg, "<path "), 8u + 8u);  // to the aggregator, and from it
    EXPECT_EQ(count_of(svg, "<text "), count_of(svg, "</text>"));
    EXPECT_EQ(count_of(svg, "nan"), 0u);
    const Planned c = setup("C");
    EXPECT_EQ(count_of(planning::plan_svg(c.file, c.plan), "<path "), 2u * 24 * 8);
}

TEST(PlanSvg, names_cannot_break_out_of_the_drawing) {
    const Planned one = planned(
        "name = \"<b>&\"\n[vector]\nelements = 10\n[peers.\"<script>\"]\ncount = 2\n"
        "up = \"1 Mb/s\"\ndown = \"1 Mb/s\"\n");
    const std::string svg = planning::plan_svg(one.file, one.plan);
    EXPECT_EQ(svg.find("<script"), std::string::npos);
    EXPECT_EQ(svg.find("<b>"), std::string::npos);
    EXPECT_NE(svg.find("&lt;b&gt;&amp;"), std::string::npos);
}

TEST(PlanSvg, long_names_lose_their_middle) {
    const Planned one = planned(
        "[vector]\nelements = 1000\n[peers.\"the-würth-machine-in-the-cellar-of-my-aunt\"]\n"
        "count = 2\nup = \"1 Mb/s\"\ndown = \"1 Mb/s\"\n");
    const std::string svg = planning::plan_svg(one.file, one.plan);
    EXPECT_EQ(count_of(svg, ">the-würt…y-aunt-1 · 1 Mb/s<"), 2u) << svg;
    EXPECT_EQ(count_of(svg, "the-würth-machine-in-the-cellar-of-my-aunt-1 · 50.0 %"), 1u);
}

TEST(PlanViews, survive_networks_of_one_and_of_very_many) {
    for (const char* count : {"1", "2", "41", "100000"}) {
        const Planned one = planned(
            fmt::format("[vector]\nelements = 1000\n[peers.x]\ncount = {}\nup = \"1 Mb/s\"\n"
                        "down = \"1 Mb/s\"\n",
                        count));
        EXPECT_FALSE(planning::plan_table(one.file, one.plan).empty());
        EXPECT_FALSE(planning::plan_picture(one.file, one.plan).empty());
        const std::string svg = planning::plan_svg(one.file, one.plan);
        EXPECT_LT(svg.size(), 2'000'000u);
        EXPECT_EQ(count_of(svg, "nan"), 0u);
        EXPECT_LE(one.json["peers"].size(), planning::plan_json_peers_max);
    }
}

TEST(PlanCommand, exit_codes_tell_what_was_wrong) {
    EXPECT_EQ(run_plan({}), 2);
    PlanOptions options;
    options.setup = "E";
    EXPECT_EQ(run_plan(options), 2);
    options.file = "/nonexistent.toml";
    EXPECT_EQ(run_plan(options), 2) << "both a file and a set-up";
    options.setup.clear();
    EXPECT_EQ(run_plan(options), 2);
    options = {};
    options.setup = "aux";
    options.json = true;
    options.svg = "/nonexistent/x.svg";
    EXPECT_EQ(run_plan(options), 6);
    const std::string path =
        std::filesystem::temp_directory_path() / fmt::format("dedloc-plan-{}.svg", ::getpid());
    options.svg = path;
    EXPECT_EQ(run_plan(options), 0);
    std::ifstream svg(path);
    std::string first;
    std::getline(svg, first);
    EXPECT_TRUE(first.starts_with("<svg ")) << first;
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace dedloc::cli
