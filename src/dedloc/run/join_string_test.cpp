#include "dedloc/run/join_string.h"

#include <gtest/gtest.h>

#include "dedloc/base/random.h"
#include "dedloc/security/identity.h"

namespace dedloc::run {
namespace {

PeerId peer(std::uint8_t number) {
    const Bytes seed(security::ed25519_seed_bytes, number);
    return security::Identity::from_seed(seed).value().id();
}

std::string address(std::uint8_t number, int port) {
    return fmt::format("/ip4/192.0.2.{}/tcp/{}/p2p/{}", number, port, peer(number).text());
}

JoinString example() {
    JoinString join;
    join.run.bytes.fill(7);
    join.secret = Bytes(run_secret_bytes, 9);
    join.addresses = {address(1, 4001), address(2, 4002), address(3, 4003)};
    Anchor anchor;
    anchor.certificate.bytes.fill(5);
    anchor.step = 1234;
    join.anchor = anchor;
    return join;
}

TEST(JoinString, survives_the_trip_through_text) {
    const JoinString join = example();
    const std::string text = to_text(join);
    EXPECT_TRUE(text.starts_with("dedloc1"));
    EXPECT_EQ(
        text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"),
        std::string::npos);
    EXPECT_LT(text.size(), 450u);
    const auto back = parse_join_string(text);
    ASSERT_TRUE(back) << to_string(back.error());
    EXPECT_EQ(*back, join);
}

TEST(JoinString, open_run_without_anchor_is_shorter) {
    JoinString join = example();
    join.secret.clear();
    join.anchor.reset();
    const auto back = parse_join_string(to_text(join));
    ASSERT_TRUE(back) << to_string(back.error());
    EXPECT_EQ(*back, join);
    EXPECT_LT(to_text(join).size(), to_text(example()).size());
}

TEST(JoinString, addresses_of_one_peer_share_its_id) {
    JoinString join = example();
    join.addresses = {address(1, 4001), address(2, 1), address(1, 4002)};
    const auto back = parse_join_string(to_text(join));
    ASSERT_TRUE(back) << to_string(back.error());
    const std::vector<std::string> expected = {address(1, 4001), address(1, 4002), address(2, 1)};
    EXPECT_EQ(back->addresses, expected);
}

TEST(JoinString, forgives_what_copying_adds) {
    std::string text = to_text(example());
    text.insert(text.size() / 2, "\n    ");
    const auto back = parse_join_string("  \"" + text + "\"\r\n");
    ASSERT_TRUE(back) << to_string(back.error());
    EXPECT_EQ(*back, example());
}

TEST(JoinString, every_cut_and_every_changed_letter_is_noticed) {
    const std::string text = to_text(example());
    for (std::size_t size = 0; size < text.size(); ++size)
        EXPECT_FALSE(parse_join_string(text.substr(0, size))) << size;
    for (std::size_t i = 0; i < text.size(); ++i) {
        std::string changed = text;
        changed[i] = changed[i] == 'A' ? 'B' : 'A';
        EXPECT_FALSE(parse_join_string(changed)) << i;
    }
}

TEST(JoinString, says_what_is_wrong) {
    const std::string text = to_text(example());
    EXPECT_EQ(parse_join_string(text.substr(0, text.size() - 5)).error().message(),
              "the join string is damaged; copy it whole");
    EXPECT_NE(parse_join_string("hello").error().message().find("is not a join string"),
              std::string::npos);
    EXPECT_NE(parse_join_string("dedloc9abc").error().message().find("another version"),
              std::string::npos);
    EXPECT_NE(parse_join_string(std::string(100000, 'a')).error().message().find("too long"),
              std::string::npos);
    JoinString nobody = example();
    nobody.addresses.clear();
    EXPECT_NE(parse_join_string(to_text(nobody)).error().message().find("names no address"),
              std::string::npos);
}

TEST(JoinString, stays_within_its_limits) {
    JoinString join = example();
    join.addresses.clear();
    const std::string long_name = "/dns4/" + std::string(200, 'x') + "/tcp/";
    for (std::uint8_t number = 1; number <= 30; ++number)
        for (int port = 1; port <= 12; ++port)
            join.addresses.push_back(
                fmt::format("{}{}/p2p/{}", long_name, port, peer(number).text()));
    join.addresses.push_back("not an address");
    const std::string text = to_text(join);
    EXPECT_LE(text.size(), join_string_bytes_max);
    const auto back = parse_join_string(text);
    ASSERT_TRUE(back) << to_string(back.error());
    EXPECT_EQ(back->addresses.front(), join.addresses.front());
}

// A peer that is given a string dials what it names.
TEST(JoinString, names_no_more_than_eight_hosts) {
    JoinString join = example();
    join.addresses.clear();
    for (std::uint8_t number = 1; number <= 8; ++number)
        for (int host = 1; host <= 8; ++host)
            join.addresses.push_back(fmt::format(
                "/ip4/198.51.{}.{}/tcp/4001/p2p/{}", number, host, peer(number).text()));
    const auto back = parse_join_string(to_text(join));
    ASSERT_TRUE(back) << to_string(back.error());
    std::set<std::string> hosts;
    for (const std::string& address : back->addresses)
        hosts.insert(address.substr(0, address.find("/tcp")));
    EXPECT_EQ(hosts.size(), 8u);
}

TEST(JoinString, random_bytes_never_pass) {
    Random random(20240501);
    for (int i = 0; i < 2000; ++i) {
        const Bytes bytes = random.bytes(random.below(200));
        EXPECT_FALSE(parse_join_string("dedloc1" + base::to_base64url(bytes)));
    }
}

TEST(JoinString, peer_addresses_are_split_at_the_id) {
    const auto parts = split_peer_address(address(4, 99));
    ASSERT_TRUE(parts);
    EXPECT_EQ(parts->address, "/ip4/192.0.2.4/tcp/99");
    EXPECT_EQ(parts->peer, peer(4));
    EXPECT_FALSE(split_peer_address("/ip4/192.0.2.4/tcp/99"));
    EXPECT_FALSE(split_peer_address("/p2p/" + peer(4).text()));
    EXPECT_FALSE(split_peer_address("/ip4/192.0.2.4/tcp/99/p2p/xyz"));
}

}  // namespace
}  // namespace dedloc::run
