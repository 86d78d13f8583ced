#include "dedloc/experts/uid.h"

#include <gtest/gtest.h>

namespace dedloc::experts {
namespace {

// hivemind's own lists (test_dht_experts.py: test_uid_patterns).
TEST(ExpertUid, takes_what_hivemind_takes_and_refuses_what_it_refuses) {
    for (const char* good : {"expert.1",
                             "expert.0",
                             "expert.0.0.1",
                             "expert.1.0.2.3",
                             "ffn.1.23.0",
                             "expert_123.0.12",
                             "\xd1\x8d\xd0\xba\xd1\x81\xd0\xbf.0",
                             "!@#$.0.1.3"}) {
        const auto uid = ExpertUid::parse(good);
        ASSERT_TRUE(uid) << good;
        EXPECT_EQ(uid->text(), good);
    }
    for (const char* bad : {"",
                            ".",
                            "expert",
                            "expert.",
                            ".1",
                            "expert.1.",
                            "expert..1",
                            "expert.01",
                            "expert.-1",
                            "expert.1.x",
                            "expert. 1",
                            "expert.1 ",
                            "expert.4294967296",
                            "expert.1.2.3.4.5.6.7.8.9"})
        EXPECT_FALSE(ExpertUid::parse(bad)) << bad;
    EXPECT_FALSE(ExpertUid::parse(std::string(uid_bytes_max, 'x') + ".1"));
}

TEST(ExpertUid, has_a_prefix_for_each_of_its_coordinates) {
    const auto uid = ExpertUid::parse("ffn.98.76.0").value();
    EXPECT_EQ(uid.prefix(0), "ffn.");
    EXPECT_EQ(uid.prefix(1), "ffn.98.");
    EXPECT_EQ(uid.prefix(2), "ffn.98.76.");
}

TEST(ExpertGrid, names_every_expert_once_and_knows_them) {
    const ExpertGrid grid{.name = "ffn", .sizes = {2, 3}};
    const auto all = grid.all();
    ASSERT_EQ(all.size(), 6u);
    EXPECT_EQ(all[0].text(), "ffn.0.0");
    EXPECT_EQ(all[5].text(), "ffn.1.2");
    for (const ExpertUid& uid : all) EXPECT_TRUE(grid.contains(uid));
    EXPECT_FALSE(grid.contains(ExpertUid::parse("ffn.2.0").value()));
    EXPECT_FALSE(grid.contains(ExpertUid::parse("ffn.1").value()));
    EXPECT_FALSE(grid.contains(ExpertUid::parse("other.0.0").value()));
}

TEST(ExpertGrid, is_refused_when_it_is_empty_or_too_large) {
    EXPECT_TRUE(check(ExpertGrid{.name = "a", .sizes = {4, 4}}));
    EXPECT_FALSE(check(ExpertGrid{.name = "", .sizes = {4}}));
    EXPECT_FALSE(check(ExpertGrid{.name = "a.b", .sizes = {4}}));
    EXPECT_FALSE(check(ExpertGrid{.name = "a", .sizes = {}}));
    EXPECT_FALSE(check(ExpertGrid{.name = "a", .sizes = {0, 4}}));
    EXPECT_FALSE(check(ExpertGrid{.name = "a", .sizes = {65536, 65536, 65536}}));
}

}  // namespace
}  // namespace dedloc::experts
