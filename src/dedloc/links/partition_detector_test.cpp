#include "dedloc/links/partition_detector.h"

#include <gtest/gtest.h>

namespace dedloc::links {
namespace {

PeerId peer(int i) {
    Bytes multihash(34);  // as SHA-256 makes it
    multihash[0] = 0x12;
    multihash[1] = 0x20;
    multihash[2] = static_cast<std::uint8_t>(i);
    return *PeerId::from_bytes(multihash);
}

// `named`: by whom, and whom.
std::set<PeerId> partitioned_of(int members, const std::vector<std::pair<int, int>>& named) {
    std::map<PeerId, std::vector<PeerId>> unreachable;
    for (int i = 0; i < members; ++i) unreachable[peer(i)] = {};
    for (const auto& [by, whom] : named) unreachable[peer(by)].push_back(peer(whom));
    return partitioned_peers(unreachable);
}

std::vector<std::pair<int, int>> names_first(int by, int count) {
    std::vector<std::pair<int, int>> named;
    for (int i = 0; i < count; ++i) named.emplace_back(by, i);
    return named;
}

TEST(PartitionDetector, are_both_ends_of_a_pair_that_one_of_them_names) {
    EXPECT_EQ(partitioned_of(4, {}), std::set<PeerId>{});
    EXPECT_EQ(partitioned_of(4, {{1, 3}}), (std::set{peer(1), peer(3)}));
    EXPECT_EQ(partitioned_of(2, {{1, 0}}), (std::set{peer(0), peer(1)}));
    EXPECT_EQ(partitioned_of(4, {{1, 3}, {3, 1}}), (std::set{peer(1), peer(3)}));
}

TEST(PartitionDetector, does_not_count_those_who_are_not_there_or_that_one_names_itself) {
    EXPECT_EQ(partitioned_of(4, {{1, 9}, {2, 2}}), std::set<PeerId>{});
    EXPECT_EQ(partitioned_of(4, {{1, 3}, {1, 3}, {1, 3}}), (std::set{peer(1), peer(3)}));
}

TEST(PartitionDetector,
     one_that_names_nearly_half_of_the_members_is_alone_the_one_that_is_cut_off) {
    EXPECT_EQ(partitioned_of(21, names_first(20, 10)), (std::set{peer(20)}));
    EXPECT_EQ(partitioned_of(5, names_first(4, 2)), (std::set{peer(4)}));
}

TEST(PartitionDetector, one_word_costs_an_eighth_of_the_members_their_parts_at_most) {
    for (const int members : {2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 100})
        for (int named = 1; named < members && named <= 64; ++named)
            EXPECT_LE(partitioned_of(members, names_first(members - 1, named)).size(),
                      1 + std::max(1u, static_cast<unsigned>(members) / 8))
                << members << " " << named;
}

// A machine behind a strange router has no way to three of eight, and they failed to reach it as
// well: none of the four owns what it brings, so that all of it comes in.
TEST(PartitionDetector, one_that_reaches_few_takes_part_fully_where_the_other_ends_say_the_same) {
    const std::vector<std::pair<int, int>> named = {{7, 0}, {7, 1}, {7, 2}, {0, 7}, {1, 7}, {2, 7}};
    EXPECT_EQ(partitioned_of(8, named), (std::set{peer(0), peer(1), peer(2), peer(7)}));
}

// Whether its router does so or it does on purpose.
TEST(PartitionDetector, one_that_lets_nobody_in_costs_only_itself_its_parts) {
    EXPECT_EQ(partitioned_of(6, {{1, 5}, {2, 5}, {3, 5}, {4, 5}}), (std::set{peer(5)}));
    EXPECT_EQ(partitioned_of(6, {{1, 5}, {2, 5}, {3, 5}, {3, 4}}),
              (std::set{peer(3), peer(4), peer(5)}));
}

}  // namespace
}  // namespace dedloc::links
