#include "dedloc/admission/token.h"

#include <gtest/gtest.h>

#include "dedloc/admission/invite_book.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/identity.h"
#include "dedloc/wire/message.h"

namespace dedloc::admission {
namespace {

constexpr WallSeconds noon = 1'800'000'000;

class TokenTest : public testing::Test {
  protected:
    TokenTest() {
        rules.run = run;
        rules.authority = authority.id();
    }

    TokenCheck verify(const Token& token, WallSeconds now = noon) const {
        return verify_token(encode_token(token), volunteer.id(), now, rules, verifier);
    }
    Refusal why(const Token& token, WallSeconds now = noon) const {
        const TokenCheck checked = verify(token, now);
        EXPECT_FALSE(checked);
        EXPECT_FALSE(checked.refused().words.empty());
        return checked.refused().why;
    }
    Token issued(WallSeconds at = noon) const {
        return *issue_token(authority, run, {.subject = "ana", .holder = volunteer.id()}, at);
    }
    static Appointment appointed(const PeerId& key) {
        return {.subject = "bea", .issuer = key, .named_by = "olga", .not_after = noon + 86'400};
    }

    const Digest run = security::sha256(as_bytes("run"));
    const security::IdentitySigner authority{security::Identity::generate()};
    const security::IdentitySigner volunteer{security::Identity::generate()};
    const security::IdentitySigner helper{security::Identity::generate()};
    const security::IdentityVerifier verifier;
    Rules rules;
};

TEST_F(TokenTest, of_the_authority_lets_its_holder_in_until_it_expires) {
    const TokenCheck checked = verify(issued(), noon + token_lifetime + clock_skew_max - 1);
    ASSERT_TRUE(checked);
    EXPECT_EQ(checked.token().subject, "ana");
    EXPECT_EQ(why(issued(), noon + token_lifetime + clock_skew_max + 1), Refusal::expired);
}

TEST_F(TokenTest, is_refused_without_one_and_with_something_else) {
    const TokenCheck none = verify_token({}, volunteer.id(), noon, rules, verifier);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.refused().why, Refusal::missing);
    const TokenCheck noise =
        verify_token(as_bytes("\xff\xff\xff"), volunteer.id(), noon, rules, verifier);
    EXPECT_EQ(noise.refused().why, Refusal::unreadable);
    const Bytes large(token_bytes_max + 1, 1);
    EXPECT_EQ(verify_token(large, volunteer.id(), noon, rules, verifier).refused().why,
              Refusal::unreadable);
}

TEST_F(TokenTest, of_another_run_or_key_is_refused) {
    const Grant grant{.subject = "ana", .holder = volunteer.id()};
    EXPECT_EQ(why(*issue_token(authority, security::sha256(as_bytes("x")), grant, noon)),
              Refusal::other_run);
    const Bytes stolen = encode_token(issued());
    EXPECT_EQ(verify_token(stolen, helper.id(), noon, rules, verifier).refused().why,
              Refusal::other_key);
}

TEST_F(TokenTest, with_any_byte_changed_is_refused) {
    const Bytes right = encode_token(issued());
    for (std::size_t place = 0; place < right.size(); ++place) {
        Bytes wrong = right;
        wrong[place] ^= 1;
        EXPECT_FALSE(verify_token(wrong, volunteer.id(), noon, rules, verifier)) << place;
    }
}

TEST_F(TokenTest, of_a_clock_that_is_ahead_is_taken_within_a_minute_and_says_by_how_much) {
    EXPECT_TRUE(verify(issued(noon + clock_skew_max)));
    const TokenCheck checked = verify(issued(noon + 3 * 3600 + 300));
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.refused().why, Refusal::from_the_future);
    EXPECT_NE(checked.refused().words.find("3 h 5 min"), std::string::npos)
        << checked.refused().words;
}

TEST_F(TokenTest, of_a_revoked_person_is_refused_by_name) {
    rules.revoked = {"ana"};
    const TokenCheck checked = verify(issued());
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.refused().why, Refusal::revoked);
    EXPECT_NE(checked.refused().words.find("ana"), std::string::npos);
}

TEST_F(TokenTest, of_a_co_organiser_needs_the_authoritys_delegation) {
    const Grant grant{.subject = "ana", .holder = volunteer.id()};
    EXPECT_EQ(why(*issue_token(helper, run, grant, noon)), Refusal::unknown_issuer);
    const Delegation right = delegate_to(authority, run, appointed(helper.id()));
    EXPECT_TRUE(verify(*issue_token(helper, run, grant, noon, right)));
    EXPECT_EQ(why(*issue_token(helper, run, grant, noon + 90'000, right), noon + 90'000),
              Refusal::unknown_issuer);
    const Delegation self_made = delegate_to(helper, run, appointed(helper.id()));
    EXPECT_EQ(why(*issue_token(helper, run, grant, noon, self_made)), Refusal::forged);
    const Delegation of_another = delegate_to(authority, run, appointed(volunteer.id()));
    EXPECT_EQ(why(*issue_token(helper, run, grant, noon, of_another)), Refusal::unknown_issuer);
    Delegation elsewhere =
        delegate_to(authority, security::sha256(as_bytes("x")), appointed(helper.id()));
    EXPECT_EQ(why(*issue_token(helper, run, grant, noon, elsewhere)), Refusal::other_run);
    Delegation renamed = right;
    renamed.subject = "ben";
    EXPECT_EQ(why(*issue_token(helper, run, grant, noon, renamed)), Refusal::forged);
}

TEST_F(TokenTest, of_a_revoked_co_organiser_is_refused_whenever_it_says_it_was_signed) {
    const Delegation right = delegate_to(authority, run, appointed(helper.id()));
    rules.revoked = {"bea"};
    const Grant grant{.subject = "mallory", .holder = volunteer.id()};
    for (const double hours_ago : {0, 1, 5}) {
        const Token token = *issue_token(helper, run, grant, noon - hours_ago * 3600, right);
        const TokenCheck checked = verify(token);
        ASSERT_FALSE(checked);
        EXPECT_EQ(checked.refused().why, Refusal::revoked);
        EXPECT_NE(checked.refused().words.find("bea"), std::string::npos);
    }
}

TEST_F(TokenTest, that_is_old_is_renewed_by_whoever_knows_its_holder) {
    const Delegation right = delegate_to(authority, run, appointed(helper.id()));
    const Grant grant{.subject = "ana", .holder = volunteer.id()};
    const Bytes early = encode_token(*issue_token(helper, run, grant, noon + 2 * 86'400, right));
    const auto may_renew = [&](bool is_known, WallSeconds now) {
        return bool(verify_old_token(early, volunteer.id(), now, rules, verifier, is_known));
    };
    EXPECT_TRUE(may_renew(false, noon)) << "a clock was wrong when it was made";
    EXPECT_FALSE(may_renew(false, noon + 3 * 86'400)) << "its issuer organises no longer";
    EXPECT_TRUE(may_renew(true, noon + 3 * 86'400));
    rules.revoked = {"bea"};
    EXPECT_FALSE(may_renew(false, noon));
    EXPECT_TRUE(may_renew(true, noon));
    rules.revoked = {"ana"};
    EXPECT_FALSE(may_renew(true, noon));
}

TEST_F(TokenTest, revocations_are_judged_at_the_time_at_which_they_come) {
    const Delegation right = delegate_to(authority, run, appointed(helper.id()));
    const auto is_taken = [&](const std::string& whom, WallSeconds says, WallSeconds comes) {
        const Bytes revocation = revoke_subject(helper, run, whom, says, right);
        return verify_revocation(revocation, comes, rules, verifier).has_value();
    };
    EXPECT_TRUE(is_taken("mallory", noon, noon));
    EXPECT_TRUE(is_taken("mallory", noon + 5e6, noon)) << "what it says of its time is nothing";
    EXPECT_FALSE(is_taken("mallory", noon, noon + 2 * 86'400)) << "of one who organised once";
    EXPECT_FALSE(is_taken("olga", noon, noon)) << "the organiser";
    rules.revoked = {"bea"};
    EXPECT_FALSE(is_taken("ana", noon - 3600, noon)) << "of one who is revoked";
    EXPECT_TRUE(verify_revocation(revoke_subject(authority, run, "ana", 0), noon, rules, verifier));
}

TEST_F(TokenTest, that_says_a_longer_time_than_any_may_is_neither_issued_nor_taken) {
    const Grant grant{
        .subject = "ana", .holder = volunteer.id(), .lifetime = token_lifetime_max + 1};
    EXPECT_FALSE(issue_token(authority, run, grant, noon));
    Token token = issued();
    token.not_after = token.issued_at + static_cast<std::uint64_t>(token_lifetime_max) + 1;
    token.signature.clear();
    token.signature = authority.sign(token_domain, wire::encode(token));
    EXPECT_EQ(why(token), Refusal::too_long);
}

TEST_F(TokenTest, names_are_printable) {
    for (const char* bad : {"", " ana", "ana ", "a\nb", "a\x1b[2J"})
        EXPECT_FALSE(check_subject(bad)) << bad;
    EXPECT_FALSE(check_subject(std::string(subject_bytes_max + 1, 'a')));
    EXPECT_TRUE(check_subject("আনা de Souza"));
}

TEST(DurationInWords, has_at_most_two_units) {
    EXPECT_EQ(duration_in_words(0.4), "0 s");
    EXPECT_EQ(duration_in_words(59), "59 s");
    EXPECT_EQ(duration_in_words(61), "1 min");
    EXPECT_EQ(duration_in_words(3600), "1 h");
    EXPECT_EQ(duration_in_words(2 * 86'400 + 3 * 3600), "2 d 3 h");
}

}  // namespace
}  // namespace dedloc::admission
