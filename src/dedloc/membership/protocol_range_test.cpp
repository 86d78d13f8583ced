#include "dedloc/membership/protocol_range.h"

#include <gtest/gtest.h>

namespace dedloc::membership {
namespace {

std::uint64_t agreed(ProtocolRange caller, ProtocolRange callee) {
    const auto version = agree_on_protocol(caller, callee, PeerId());
    EXPECT_TRUE(version) << version.error().message();
    return version ? *version : 0;
}

Error refused(ProtocolRange caller, ProtocolRange callee) {
    const auto version = agree_on_protocol(caller, callee, PeerId());
    EXPECT_FALSE(version);
    return version ? make_error(ErrorKind::timeout, "agreed") : version.error();
}

TEST(ProtocolRange, both_use_the_newest_that_both_know) {
    EXPECT_EQ(agreed({1, 1, ""}, {1, 1, ""}), 1u);
    EXPECT_EQ(agreed({1, 3, ""}, {2, 5, ""}), 3u);
    EXPECT_EQ(agreed({4, 5, ""}, {2, 4, ""}), 4u);
    EXPECT_EQ(agreed({}, own_protocols()), 1u) << "peers that told no range spoke version 1";
}

TEST(ProtocolRange, the_refusal_names_both_and_what_to_get) {
    const Error newer = refused({1, 1, "0.1.0"}, {2, 3, "0.3.0"});
    EXPECT_EQ(newer.kind(), ErrorKind::conflict);
    EXPECT_TRUE(newer.message().ends_with(
        " has dedloc 0.3.0 and speaks version 2 to 3 of a run's protocol, and dedloc 0.1.0 here "
        "speaks version 1: install here dedloc 0.3.0 or newer"))
        << newer.message();
    const Error older = refused({2, 3, "0.3.0"}, {});
    EXPECT_TRUE(older.message().ends_with(
        " has an early dedloc and speaks version 1 of a run's protocol, and dedloc 0.3.0 here "
        "speaks version 2 to 3: its owner has to install dedloc 0.3.0 or newer"))
        << older.message();
}

TEST(ProtocolRange, what_is_no_range_or_no_name_is_harmless) {
    EXPECT_EQ(refused({}, {3, 2, ""}).kind(), ErrorKind::peer_broke_protocol);
    EXPECT_EQ(refused({0, 7, ""}, {}).kind(), ErrorKind::peer_broke_protocol);
    const Error named = refused({}, {9, 9, std::string(5000, 'x') + "\x1b[2J"});
    EXPECT_LT(named.message().size(), 400u);
}

}  // namespace
}  // namespace dedloc::membership
