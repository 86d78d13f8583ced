#include "dedloc/p2p/protocols.h"

#include <gtest/gtest.h>

#include "dedloc/p2p/limits.h"

namespace dedloc::p2p {
namespace {

TEST(RememberedProtocols, are_the_first_ones_within_the_limits) {
    EXPECT_EQ(remembered_protocols({"b", "a", "b"}), (std::set<std::string>{"a", "b"}));
    std::vector<std::string> many;
    for (std::size_t i = 0; i < 2 * protocols_per_peer_max; ++i) many.push_back(std::to_string(i));
    const auto first = remembered_protocols(many);
    EXPECT_EQ(first.size(), protocols_per_peer_max);
    EXPECT_TRUE(first.contains("0"));
    EXPECT_FALSE(first.contains(std::to_string(protocols_per_peer_max)));

    std::vector<std::string> long_ones;
    for (char letter = 'a'; letter <= 'z'; ++letter) long_ones.emplace_back(1000, letter);
    EXPECT_EQ(remembered_protocols(long_ones).size(), protocols_bytes_per_peer_max / 1000);
}

}  // namespace
}  // namespace dedloc::p2p
