#include "dedloc/planning/plan_file.h"

#include <gtest/gtest.h>

namespace dedloc::planning {
namespace {

constexpr std::string_view small = R"(name = "small"
[vector]
elements = 1000
codec = "fp32"
part_elements_min = 10
[training]
batch = 64
[peers.zoe]
up = "8 Mb/s"
down = "1 MB/s"
samples_per_s = 3.5
[peers.anna]
count = 2
up = "100 kb/s"
down = "1 Gb/s"
dialable = false
samples_per_s = 1
[peers.aux]
role = "aggregator"
up = "1 Gb/s"
down = "1 Gb/s"
[links.slow]
from = "zoe"
to = "anna"
rate = "32 b/s"
both = true
[links.cut]
from = "anna-2"
to = "aux"
rate = "none"
)";

TEST(PlanFile, says_who_is_there_and_how_fast) {
    const auto file = parse_plan_file(small, "small.toml");
    ASSERT_TRUE(file) << file.error().message();
    EXPECT_EQ(file->name, "small");
    const planner::LoadQuestion& question = file->question;
    EXPECT_EQ(question.elements_count, 1000u);
    EXPECT_EQ(question.element_bytes, 4);
    EXPECT_EQ(question.part_elements_min, 10u);
    EXPECT_EQ(question.batch_samples, 64);
    EXPECT_FALSE(question.delayed);
    ASSERT_EQ(question.peers.size(), 4u);  // in the order of the file, not of the alphabet
    EXPECT_EQ(question.peers[0].name, "zoe");
    EXPECT_EQ(question.peers[1].name, "anna-1");
    EXPECT_EQ(question.peers[2].name, "anna-2");
    EXPECT_EQ(file->groups, (std::vector<std::string>{"zoe", "anna", "anna", "aux"}));
    EXPECT_EQ(question.peers[0].rates.upload_per_s, 250'000);    // 8 Mb/s of 32 bits each
    EXPECT_EQ(question.peers[0].rates.download_per_s, 250'000);  // 1 MB/s
    EXPECT_EQ(question.peers[0].samples_per_s, 3.5);
    EXPECT_FALSE(question.peers[1].rates.owns_allowed);
    EXPECT_TRUE(question.peers[3].is_aggregator());
    ASSERT_EQ(question.links.size(), 5u);
    EXPECT_EQ(question.links[0].from, 0u);
    EXPECT_EQ(question.links[0].to, 1u);
    EXPECT_EQ(question.links[0].per_s, 1);
    EXPECT_EQ(question.links[1].from, 1u);
    EXPECT_EQ(question.links[1].to, 0u);
    EXPECT_EQ(question.links[4].from, 2u);
    EXPECT_EQ(question.links[4].to, 3u);
    EXPECT_EQ(question.links[4].per_s, 0);
}

std::string complaint(std::string_view text) {
    const auto file = parse_plan_file(text, "n.toml");
    if (file) return "none";
    EXPECT_EQ(file.error().kind(), ErrorKind::bad_input);
    return file.error().message();
}

// `small` with one piece exchanged.
std::string with(std::string_view old_text, std::string_view new_text) {
    std::string text(small);
    const auto at = text.find(old_text);
    EXPECT_NE(at, std::string::npos) << old_text;
    return text.replace(at, old_text.size(), new_text);
}

TEST(PlanFile, errors_have_line_and_column_and_say_what_to_write) {
    EXPECT_EQ(complaint(with("up = \"8 Mb/s\"", "up = 8")),
              "n.toml:9:6: 'up' in [peers.zoe] must be a rate like \"100 Mb/s\", or \"none\"");
    EXPECT_EQ(complaint(with("8 Mb/s", "8 Mb")),
              "n.toml:9:6: 'up' in [peers.zoe] must be a rate like \"100 Mb/s\", or \"none\"");
    EXPECT_EQ(complaint(with("up = \"8 Mb/s\"", "upload = \"8 Mb/s\"")),
              "n.toml:9:1: unknown key 'upload' in [peers.zoe]; known are: count, up, down, role, "
              "receives, dialable, samples_per_s");
    EXPECT_EQ(complaint(with("up = \"8 Mb/s\"\n", "")),
              "n.toml:8:1: 'up' is missing in [peers.zoe]");
    EXPECT_EQ(complaint(with("samples_per_s = 3.5\n", "")),
              "n.toml:8:1: 'samples_per_s' is missing in [peers.zoe]");
    EXPECT_EQ(complaint(with("count = 2", "count = 0")),
              "n.toml:13:9: 'count' in [peers.anna] must be a whole number from 1 to 100000");
    EXPECT_EQ(complaint(with("\"aggregator\"", "\"boss\"")).substr(0, 47),
              "n.toml:19:8: 'role' must be \"trainer\" (computes");
    EXPECT_EQ(complaint(with("from = \"zoe\"", "from = \"zoo\"")),
              "n.toml:23:8: there are no peers 'zoo'");
    EXPECT_EQ(complaint(with("to = \"anna\"", "to = \"zoe\"")),
              "n.toml:24:6: a link needs two different peers");
    EXPECT_EQ(complaint(with("both = true", "both = 1")),
              "n.toml:26:8: 'both' in [links.slow] must be true or false");
    EXPECT_EQ(complaint(with("codec = \"fp32\"", "codec = \"fp33\"")).substr(0, 12),
              "n.toml:4:9: ");
    EXPECT_EQ(complaint(with("[training]", "[trainings]")),
              "n.toml:6:2: unknown key 'trainings'; known are: name, about, vector, training, "
              "peers, links");
    EXPECT_EQ(complaint(with("[peers.aux]", "[peers.anna-1]")),
              "n.toml:18:1: two peers are called 'anna-1'");
    EXPECT_EQ(complaint("name = \"a\"\n[task]\nkind = \"synthetic\"\n").substr(0, 28),
              "n.toml: this is a run file, ");
    EXPECT_EQ(complaint("[vector]\nelements = 1\n").substr(0, 26), "n.toml:1:1: 'peers' is mis");
    EXPECT_EQ(complaint("[vector]\nelements = 1\n[peers]\n"), "n.toml:3:1: there are no peers");
    EXPECT_EQ(complaint("[vector]\nelements = 1\n[peers]\nzoe = 1\n").substr(0, 38),
              "n.toml:4:1: here belong sections like ");
    EXPECT_EQ(complaint("elements = \n").substr(0, 9), "n.toml:1:");
    EXPECT_EQ(complaint("peers = 1\n[vector]\nelements = 1\n"),
              "n.toml:1:9: 'peers' must be a section");
    EXPECT_EQ(complaint("\x01").substr(0, 12), "n.toml:1:1: ");
    EXPECT_EQ(complaint("").substr(0, 22), "n.toml:1:1: 'vector' i");
}

TEST(PlanFile, sizes_are_bounded) {
    EXPECT_NE(complaint(with("count = 2", "count = 100000")).find("more than 100000 peers"),
              std::string::npos);
    std::string many = with("count = 2", "count = 1500");
    many += "[links.all]\nfrom = \"anna\"\nto = \"anna\"\nrate = \"1 Mb/s\"\n";
    EXPECT_NE(complaint(many).find("more than 1000000 limits of links"), std::string::npos);
    EXPECT_NE(complaint(std::string(plan_file_bytes_max + 1, ' ')).find("too many"),
              std::string::npos);
    EXPECT_FALSE(parse_plan_file(with("1000", "0"), "n.toml"));
    EXPECT_FALSE(parse_plan_file(with("1000", "99999999999999999"), "n.toml"));
}

TEST(PlanFile, a_thousand_peers_may_have_a_limit_on_every_link) {
    for (const char* both : {"false", "true"}) {
        std::string mesh = with("count = 2", "count = 1000");
        mesh.resize(mesh.find("[links.slow]"));
        mesh += "[links.all]\nfrom = \"anna\"\nto = \"anna\"\nrate = \"1 Mb/s\"\n";
        const auto file = parse_plan_file(mesh + "both = " + both + "\n", "n.toml");
        ASSERT_TRUE(file) << file.error().message();
        EXPECT_EQ(file->question.links.size(), 999'000u);
    }
}

TEST(PlanFile, training_may_go_on_while_a_step_is_averaged) {
    const auto file = parse_plan_file(with("batch = 64", "batch = 64\ndelayed = true"), "n.toml");
    ASSERT_TRUE(file) << file.error().message();
    EXPECT_TRUE(file->question.delayed);
    EXPECT_EQ(complaint(with("batch = 64", "batch = 64\ndelayed = 1")),
              "n.toml:8:11: 'delayed' in [training] must be true or false");
}

TEST(PlanFile, a_byte_order_mark_is_skipped) {
    EXPECT_EQ(complaint("\xEF\xBB\xBF" + std::string(small)), "none");
    EXPECT_NE(complaint(std::string(small) + "\xEF\xBB\xBF"), "none");
}

TEST(PlanFile, rates_have_units) {
    EXPECT_EQ(*rate_from_text("200 Mb/s"), 200e6);
    EXPECT_EQ(*rate_from_text("2.5Gb/s"), 2.5e9);
    EXPECT_EQ(*rate_from_text("1 kB/s"), 8e3);
    EXPECT_EQ(*rate_from_text("0 b/s"), 0);
    EXPECT_EQ(*rate_from_text("none"), 0);
    for (const std::string_view bad :
         {"", "200", "Mb/s", "-1 Mb/s", "nan Mb/s", "inf b/s", "1e30 Tb/s", "1 mb/s", "1 Mb/s "})
        EXPECT_FALSE(rate_from_text(bad)) << bad;
}

}  // namespace
}  // namespace dedloc::planning
