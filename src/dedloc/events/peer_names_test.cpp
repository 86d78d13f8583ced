#include "dedloc/events/peer_names.h"

#include <gtest/gtest.h>

#include "dedloc/security/identity.h"

namespace dedloc::events {
namespace {

PeerId named_peer(std::uint8_t number) {
    return security::Identity::from_seed(Bytes(32, number))->id();
}

TEST(PeerNames, a_text_has_names_instead_of_ids) {
    PeerNames names;
    names.set_name(named_peer(1), "anna");
    const std::string known = named_peer(1).short_text();
    const std::string stranger = named_peer(2).short_text();
    EXPECT_EQ(names.in(fmt::format("{} joined; ({}), {}x", known, known, known)),
              fmt::format("anna joined; (anna), {}x", known));
    EXPECT_EQ(names.in(stranger + " joined"), stranger + " joined");
    EXPECT_EQ(names.of(named_peer(2)), stranger);
    EXPECT_EQ(names.in(""), "");
}

TEST(PeerNames, an_invitation_wins_over_what_a_peer_calls_itself) {
    PeerNames names;
    names.set_name(named_peer(1), "laptop");
    names.set_person(named_peer(1), "Ra\u00fal");
    EXPECT_EQ(names.of(named_peer(1)), "Ra\u00fal");
    names.set_name(named_peer(1), "organiser");
    EXPECT_EQ(names.of(named_peer(1)), "Ra\u00fal");
}

TEST(PeerNames, equal_names_and_missing_ones_are_numbered_as_they_come) {
    PeerNames names;
    names.set_name(named_peer(1), "debian");
    names.set_name(named_peer(2), "debian");
    names.set_name(named_peer(3), "");
    names.set_name(named_peer(4), "");
    EXPECT_EQ(names.of(named_peer(1)), "debian");
    EXPECT_EQ(names.of(named_peer(2)), "debian 2");
    EXPECT_EQ(names.of(named_peer(3)), "nameless peer");
    EXPECT_EQ(names.of(named_peer(4)), "nameless peer 2");
    names.set_name(named_peer(2), "debian");
    EXPECT_EQ(names.of(named_peer(2)), "debian 2");
    names.set_name(named_peer(1), "other");
    names.set_name(named_peer(5), "debian");
    EXPECT_EQ(names.of(named_peer(5)), "debian");
}

TEST(PeerNames, foreign_letters_stay_and_what_moves_a_cursor_does_not) {
    PeerNames names;
    names.set_name(named_peer(1), "\u5f20\u4f1f\x1b[2J");
    EXPECT_EQ(names.of(named_peer(1)), "\u5f20\u4f1f?[2J");
    names.set_name(named_peer(2), std::string(500, 'x'));
    EXPECT_EQ(names.of(named_peer(2)).size(), shown_name_columns);
}

}  // namespace
}  // namespace dedloc::events
