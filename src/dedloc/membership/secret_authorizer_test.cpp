#include "dedloc/membership/secret_authorizer.h"

#include <gtest/gtest.h>

#include "dedloc/security/toy_signature.h"

namespace dedloc::membership {
namespace {

Meeting some_meeting() {
    return {.caller = security::toy_peer_id(1),
            .callee = security::toy_peer_id(2),
            .nonce_caller = Bytes(16, 3),
            .nonce_callee = Bytes(16, 4)};
}

TEST(SecretAuthorizer, believes_either_side_that_knows_the_secret) {
    SecretAuthorizer ours(Bytes(16, 7));
    SecretAuthorizer theirs(Bytes(16, 7));
    const Meeting meeting = some_meeting();
    for (const Side side : {Side::caller, Side::callee})
        EXPECT_TRUE(ours.check(meeting, side, theirs.credential(meeting, side)));
}

TEST(SecretAuthorizer, refuses_another_secret_in_a_sentence_for_the_caller) {
    SecretAuthorizer ours(Bytes(16, 7));
    SecretAuthorizer theirs(Bytes(16, 8));
    const Meeting meeting = some_meeting();
    const auto caller = ours.check(meeting, Side::caller, theirs.credential(meeting, Side::caller));
    ASSERT_FALSE(caller);
    EXPECT_EQ(caller.error().kind(), ErrorKind::denied);
    EXPECT_NE(caller.error().message().find("fresh join string"), std::string::npos);
    const auto callee = ours.check(meeting, Side::callee, theirs.credential(meeting, Side::callee));
    ASSERT_FALSE(callee);
    EXPECT_NE(callee.error().message().find("could not prove"), std::string::npos);
    EXPECT_NE(callee.error().message().find("resumed"), std::string::npos);
}

// Neither by whom it was shown to, nor at another meeting.
TEST(SecretAuthorizer, a_credential_cannot_be_shown_again) {
    SecretAuthorizer authorizer(Bytes(16, 7));
    const Meeting meeting = some_meeting();
    const Bytes shown = authorizer.credential(meeting, Side::caller);
    EXPECT_FALSE(authorizer.check(meeting, Side::callee, shown));
    Meeting later = meeting;
    later.nonce_callee = Bytes(16, 5);
    EXPECT_FALSE(authorizer.check(later, Side::caller, shown));
    EXPECT_FALSE(authorizer.check(meeting, Side::caller, {}));
}

}  // namespace
}  // namespace dedloc::membership
