#include "dedloc/wire/written_addresses.h"

#include <gtest/gtest.h>

namespace dedloc::wire {
namespace {

TEST(WrittenAddresses, say_where_to_listen_in_several_ways) {
    const std::vector<std::string> written = {"0.0.0.0:4001",
                                              "[::]:4002",
                                              ":4003",
                                              "*:4004",
                                              "/ip4/1.2.3.4/tcp/5",
                                              "none",
                                              "127.0.0.1:0"};
    const std::vector<std::string> expected = {"/ip4/0.0.0.0/tcp/4001",
                                               "/ip6/::/tcp/4002",
                                               "/ip4/0.0.0.0/tcp/4003",
                                               "/ip4/0.0.0.0/tcp/4004",
                                               "/ip4/1.2.3.4/tcp/5",
                                               "/ip4/127.0.0.1/tcp/0"};
    EXPECT_EQ(listen_addresses(written).value(), expected);
    EXPECT_TRUE(listen_addresses({}).value().empty());
    for (const char* bad :
         {"0.0.0.0:99999", "nonsense", "example.org:4001", "[::1:4001", "::1", ""}) {
        const auto refused = listen_addresses({bad});
        ASSERT_FALSE(refused) << bad;
        EXPECT_NE(refused.error().message().find("127.0.0.1:0"), std::string::npos)
            << refused.error().message();
    }
    EXPECT_FALSE(listen_addresses({"/ip4/1.2.3/tcp/5"}));
}

TEST(WrittenAddresses, say_what_to_dial_names_among_them) {
    const std::vector<std::string> written = {
        "203.0.113.7:4001", "example.org:4002", "[2001:db8::1]:4003", "/dns4/a.b/tcp/5"};
    const std::vector<std::string> expected = {"/ip4/203.0.113.7/tcp/4001",
                                               "/dns/example.org/tcp/4002",
                                               "/ip6/2001:db8::1/tcp/4003",
                                               "/dns4/a.b/tcp/5"};
    EXPECT_EQ(announced_addresses(written).value(), expected);
    for (const char* bad : {"example.org", ":4001", "203.0.113.7:0", "a b:4001", "a.b:99999"})
        EXPECT_FALSE(announced_addresses({bad})) << bad;
}

}  // namespace
}  // namespace dedloc::wire
