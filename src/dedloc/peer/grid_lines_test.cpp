#include "dedloc/peer/grid_lines.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dedloc/security/identity.h"

namespace dedloc::peer {
namespace {

TEST(GridLines, say_who_serves_what_and_since_when_it_has_not_learnt) {
    const PeerId busy = security::Identity::generate().id();
    const PeerId silent = security::Identity::generate().id();
    const experts::ExpertGrid grid{.name = "ffn", .sizes = {2, 2}};
    experts::GridSeen seen;
    seen.servers.push_back(
        {.server = busy, .record = {.hosted = 2, .calls_per_s = 12.5, .failed = 3}});
    for (const experts::ExpertUid& uid : grid.all())
        seen.experts.push_back({.uid = uid, .server = std::nullopt});
    for (int i : {0, 1}) {
        seen.experts[i].server = busy;
        seen.experts[i].answers = true;
        seen.experts[i].updates = 5;
    }
    seen.experts[2].server = silent;
    GridLines lines;
    EXPECT_TRUE(lines.lines(0, {}).empty());
    lines.update(seen, 100);
    seen.experts[1].updates = 6;
    lines.update(seen, 103);
    const auto text = lines.lines(110, {{busy, "kitchen"}});
    ASSERT_EQ(text.size(), 2u);
    EXPECT_EQ(text[0], "experts: 2 of 4 served, 1 do not answer");
    EXPECT_TRUE(text[1].starts_with("  kitchen  ")) << text[1];
    EXPECT_NE(lines.lines(110, {})[1].find("…" + busy.text().substr(busy.text().size() - 8)),
              std::string::npos);
    EXPECT_NE(text[1].find("12.5 calls/s"), std::string::npos);
    EXPECT_NE(text[1].find("failed 3"), std::string::npos);
    EXPECT_NE(text[1].find("learnt 7 s ago"), std::string::npos);
    EXPECT_NE(text[1].find("ffn.0.0 ffn.0.1"), std::string::npos);
    const auto json = lines.json(110);
    EXPECT_EQ(json["served"], 2);
    EXPECT_EQ(json["experts"][1]["updates"], 6);
    EXPECT_EQ(json["experts"][2]["answers"], false);
    EXPECT_FALSE(json["experts"][3].contains("peer"));
}

TEST(GridLines, say_what_is_to_be_done_where_nobody_serves) {
    experts::GridSeen seen;
    const experts::ExpertGrid grid{.name = "ffn", .sizes = {2, 2}};
    for (const experts::ExpertUid& uid : grid.all())
        seen.experts.push_back({.uid = uid, .server = std::nullopt});
    GridLines lines;
    lines.update(seen, 1);
    ASSERT_EQ(lines.lines(2, {}).size(), 1u);
    EXPECT_NE(lines.lines(2, {})[0].find("dedloc serve"), std::string::npos);
}

}  // namespace
}  // namespace dedloc::peer
