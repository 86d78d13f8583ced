#include "dedloc/admission/invite_book.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "dedloc/base/random.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/toy_signature.h"

namespace dedloc::admission {
namespace {

constexpr WallSeconds monday = 1'800'000'000;
constexpr WallSeconds day = 86'400;

class InviteBookTest : public testing::Test {
  protected:
    InviteBookTest() {
        rules.run = run;
        rules.authority = organiser.id();
    }
    Bytes invited(const std::string& name) {
        Bytes code = random.bytes(code_bytes);
        const Ok noted = book.invite(name, code, monday, code_lifetime);
        EXPECT_TRUE(noted) << noted.error().message();
        return code;
    }
    Result<Token> redeem(ByteView code, const PeerId& peer, WallSeconds now = monday) {
        return book.redeem(code, peer, now, organiser, std::nullopt);
    }
    Result<Token> renew(const Token& old, const PeerId& peer, WallSeconds now) {
        return book.renew(encode_token(old), peer, now, rules, organiser, verifier, std::nullopt);
    }

    const Digest run = security::sha256(as_bytes("run"));
    const security::ToySigner organiser{1};
    const security::ToyVerifier verifier;
    const PeerId laptop = security::toy_peer_id(2);
    const PeerId desktop = security::toy_peer_id(3);
    base::Random random{7};
    InviteBook book{run};
    Rules rules;
};

TEST_F(InviteBookTest, a_code_gives_one_device_a_token_and_again_if_the_answer_was_lost) {
    const Bytes code = invited("ana");
    const auto token = redeem(code, laptop);
    ASSERT_TRUE(token);
    EXPECT_TRUE(verify_token(encode_token(*token), laptop, monday, rules, verifier));
    EXPECT_TRUE(redeem(code, laptop));
    const auto replayed = redeem(code, desktop);
    ASSERT_FALSE(replayed);
    EXPECT_EQ(replayed.error().kind(), ErrorKind::denied);
    EXPECT_NE(replayed.error().message().find("another device"), std::string::npos);
    EXPECT_EQ(book.people().at("ana").devices(), 1u);
}

TEST_F(InviteBookTest, a_code_ends_but_not_for_the_device_that_used_it_in_time) {
    const Bytes code = invited("ana");
    EXPECT_FALSE(redeem(code, laptop, monday + code_lifetime + 1));
    const Bytes used = invited("ana");
    EXPECT_TRUE(redeem(used, laptop, monday + 1));
    EXPECT_TRUE(redeem(used, laptop, monday + code_lifetime + 1));
}

TEST_F(InviteBookTest, a_guessed_code_is_refused) {
    invited("ana");
    EXPECT_FALSE(redeem(Bytes(code_bytes, 0), laptop));
    EXPECT_FALSE(redeem({}, laptop));
}

TEST_F(InviteBookTest, another_issuers_token_is_renewed_and_a_revoked_persons_is_not) {
    const Token token = *redeem(invited("ana"), laptop);
    InviteBook elsewhere(run);
    const security::ToySigner helper(9);
    const Delegation delegation = delegate_to(organiser,
                                              run,
                                              {.subject = "bea",
                                               .issuer = helper.id(),
                                               .named_by = "olga",
                                               .not_after = monday + 30 * day});
    const auto renewed = elsewhere.renew(
        encode_token(token), laptop, monday + 2 * day, rules, helper, verifier, delegation);
    ASSERT_TRUE(renewed) << renewed.error().message();
    EXPECT_TRUE(verify_token(encode_token(*renewed), laptop, monday + 2 * day, rules, verifier));
    EXPECT_FALSE(renew(token, desktop, monday + day));
    EXPECT_FALSE(renew(token, laptop, monday + renewal_max + day));
    ASSERT_TRUE(book.revoke("ana"));
    const auto refused = renew(*renewed, laptop, monday + 2 * day);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("revoked"), std::string::npos);
}

TEST_F(InviteBookTest, revoking_ends_open_invitations_and_makes_no_sense_twice) {
    const Bytes code = invited("ana");
    EXPECT_EQ(book.revoke("bob").error().kind(), ErrorKind::not_found);
    EXPECT_TRUE(book.revoke("ana"));
    EXPECT_EQ(book.revoke("ana").error().kind(), ErrorKind::conflict);
    EXPECT_FALSE(redeem(code, laptop));
    EXPECT_FALSE(book.invite("ana", random.bytes(code_bytes), monday, code_lifetime));
    EXPECT_EQ(book.revoked(), std::set<std::string>{"ana"});
}

TEST_F(InviteBookTest, people_let_in_by_others_are_renewed_and_can_be_revoked) {
    const security::ToySigner helper(9);
    const Delegation delegation = delegate_to(
        organiser,
        run,
        {.subject = "bea", .issuer = helper.id(), .named_by = "olga", .not_after = monday + day});
    const Grant grant{.subject = "mo", .holder = laptop};
    const Token token = *issue_token(helper, run, grant, monday, delegation);
    EXPECT_EQ(book.revoke("mo").error().kind(), ErrorKind::not_found);
    EXPECT_TRUE(book.meet("mo", laptop, "bea"));
    EXPECT_FALSE(book.meet("mo", laptop, "bea")) << "no news";
    EXPECT_EQ(book.people().at("mo").devices(), 1u);
    EXPECT_EQ(book.people().at("mo").let_in_by, "bea");
    rules.revoked = {"bea"};
    EXPECT_TRUE(renew(token, laptop, monday + 2 * day)) << "known, whoever let them in";
    EXPECT_FALSE(renew(token, desktop, monday + 2 * day));
    ASSERT_TRUE(book.revoke("mo"));
    EXPECT_FALSE(renew(token, laptop, monday));
}

TEST_F(InviteBookTest, people_whom_others_let_in_leave_half_of_the_room) {
    for (std::size_t i = 0; i < met_people_max + 8; ++i)
        (void)book.meet(fmt::format("guest {}", i), security::toy_peer_id(1000 + i), "bea");
    EXPECT_EQ(book.people().size(), met_people_max);
    EXPECT_FALSE(invited("ana").empty());
    EXPECT_TRUE(book.people().contains("ana"));
}

TEST_F(InviteBookTest, comes_back_from_disk_whole_and_holds_no_code) {
    const Bytes code = invited("ana");
    const Token token = *redeem(code, laptop);
    const Bytes stored = book.encode();
    EXPECT_EQ(std::search(stored.begin(), stored.end(), code.begin(), code.end()), stored.end());
    auto again = InviteBook::decode(stored, run);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->encode(), stored);
    const auto next = again->redeem(code, laptop, monday, organiser, std::nullopt);
    ASSERT_TRUE(next);
    EXPECT_GT(next->serial, token.serial);
    EXPECT_EQ(InviteBook::decode(stored, Digest{}).error().kind(), ErrorKind::conflict);
    EXPECT_FALSE(InviteBook::decode(ByteView(stored).first(stored.size() - 1), run));
}

TEST_F(InviteBookTest, one_person_has_so_many_open_invitations_at_most_and_old_ones_make_room) {
    for (std::size_t i = 0; i < codes_open_max; ++i) invited("ana");
    EXPECT_EQ(book.invite("ana", random.bytes(code_bytes), monday, code_lifetime).error().kind(),
              ErrorKind::overloaded);
    EXPECT_TRUE(
        book.invite("ana", random.bytes(code_bytes), monday + code_lifetime + 1, code_lifetime));
}

TEST(ListOfNames, skips_comments_and_names_the_line_of_a_duplicate) {
    EXPECT_EQ(*parse_list_of_names("# volunteers\nana\r\n\n  bob \n"),
              (std::vector<std::string>{"ana", "bob"}));
    const auto twice = parse_list_of_names("ana\nbob\nana");
    ASSERT_FALSE(twice);
    EXPECT_NE(twice.error().message().find("line 3"), std::string::npos);
    EXPECT_FALSE(parse_list_of_names("a\tb"));
    EXPECT_EQ(*parse_list_of_names("\xEF\xBB\xBF"
                                   "ana\r\rbob"),
              (std::vector<std::string>{"ana", "bob"}));
    const auto look_alike = parse_list_of_names("Jos\xC3\xA9\nJose\xCC\x81\n");
    ASSERT_FALSE(look_alike);
    EXPECT_NE(look_alike.error().message().find("line 2"), std::string::npos);
    const auto latin = check_subject("Jos\xE9");
    ASSERT_FALSE(latin);
    EXPECT_NE(latin.error().message().find("is not UTF-8"), std::string::npos);
}

}  // namespace
}  // namespace dedloc::admission
