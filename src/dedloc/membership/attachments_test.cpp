// Attachments in virtual time: honest peers, and what hostile ones may answer.

#include "dedloc/membership/attachments.h"

#include <gtest/gtest.h>

#include "dedloc/base/fields.h"
#include "dedloc/base/random.h"
#include "dedloc/membership/secret_authorizer.h"
#include "dedloc/security/hash.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/message.h"

namespace dedloc::membership {
namespace {

constexpr std::size_t file_bytes = 3 * attachment_piece_bytes_max + 1234;

struct FalseAnswer {
    std::uint64_t bytes = 0;
    Bytes piece;
    DEDLOC_FIELDS(bytes, piece)
};

Task<Result<Bytes>> answer_with(Bytes answer) { co_return answer; }

class Attachments : public ::testing::Test {
  protected:
    Attachments() {
        Random random(11);
        file = random.bytes(file_bytes);
        hash = security::sha256(file);
        run.bytes[0] = 7;
    }

    AttachmentServer server_at(sim::SimNode& node) const {
        std::vector<Attachment> attachments;
        attachments.push_back({.hash = hash, .bytes = SharedBytes(file)});
        return {
            node.host(), run, std::make_shared<SecretAuthorizer>(secret), std::move(attachments)};
    }
    static std::string address(sim::SimNode& node) {
        return node.address() + "/p2p/" + node.id().text();
    }
    AttachmentWish wish(std::vector<std::string> peers) const {
        return {.run = run,
                .authorizer = std::make_shared<SecretAuthorizer>(secret),
                .peers = std::move(peers),
                .hash = hash,
                .bytes_max = file_bytes};
    }
    // A peer that says `answer` to every question.
    static void lie(sim::SimNode& node, const FalseAnswer& answer) {
        node.host().handle_call(attachment_method, [bytes = wire::encode(answer)](PeerId, Bytes) {
            return answer_with(bytes);
        });
    }

    // A machine that takes no connection and says so to nobody.
    std::string unreachable_address() {
        sim::SimNode& node = world.add_node({.name = "unreachable"});
        world.block(newcomer, node);
        return address(node);
    }
    static Task<Result<Bytes>> answer_late(p2p::Host& host, Duration after, Bytes answer) {
        co_await host.clock().sleep_for(after);
        co_return answer;
    }

    static Task<void> run_fetch(p2p::Host& host, AttachmentWish wish, Result<Bytes>& out) {
        const TimePoint deadline = host.clock().now() + Duration(120s);
        out = co_await fetch_attachment(host, std::move(wish), deadline);
    }
    Result<Bytes> fetch(AttachmentWish wanted) {
        Result<Bytes> out = make_error(ErrorKind::cancelled, "not run");
        world.run_task(run_fetch(newcomer.host(), std::move(wanted), out));
        return out;
    }

    sim::World world{4711};
    sim::SimNode& newcomer = world.add_node({.name = "newcomer"});
    sim::SimNode& first = world.add_node({.name = "first"});
    sim::SimNode& second = world.add_node({.name = "second"});
    Bytes file;
    Digest hash;
    Digest run;
    Bytes secret = Bytes(16, 9);
};

TEST_F(Attachments, a_file_of_several_pieces_arrives_whole) {
    const AttachmentServer server = server_at(first);
    const auto got = fetch(wish({address(first)}));
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(*got, file);
}

TEST_F(Attachments, who_has_it_not_or_cannot_be_reached_is_passed_over) {
    const AttachmentServer server = server_at(second);
    sim::SimNode& dead = world.add_node({.name = "dead"});
    const std::string dead_address = address(dead);
    dead.kill();
    const auto got = fetch(wish({dead_address, address(first), address(second)}));
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(*got, file);
}

TEST_F(Attachments, many_addresses_that_nobody_answers_at_do_not_use_up_the_time) {
    const AttachmentServer server = server_at(first);
    std::vector<std::string> addresses;
    for (int i = 0; i < 8; ++i) addresses.push_back(unreachable_address());
    addresses.push_back(address(first));
    const auto got = fetch(wish(addresses));
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_LE(to_seconds(world.now().since_start), 8 * 5 + 5);
}

TEST_F(Attachments, who_is_connected_already_is_asked_first) {
    const AttachmentServer server = server_at(first);
    ASSERT_TRUE(fetch(wish({address(first)})));
    const TimePoint begun = world.now();
    ASSERT_TRUE(fetch(wish({unreachable_address(), unreachable_address(), address(first)})));
    EXPECT_LT(to_seconds(world.now() - begun), 1);
}

// Each piece is as long as it should be, and late.
TEST_F(Attachments, a_slow_peer_does_not_use_up_the_others_time) {
    const AttachmentServer server = server_at(second);
    int asked = 0;
    first.host().handle_call(attachment_method, [&](PeerId, Bytes) {
        ++asked;
        FalseAnswer part;
        part.bytes = 100 * attachment_piece_bytes_max;
        part.piece = Bytes(attachment_piece_bytes_max, 1);
        return answer_late(first.host(), 19s, wire::encode(part));
    });
    AttachmentWish wanted = wish({address(first), address(second)});
    wanted.bytes_max = 100 * attachment_piece_bytes_max;
    const auto got = fetch(std::move(wanted));
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(*got, file);
    EXPECT_LE(asked, 4);
}

// A peer's addresses share the time of one: a slow line needs it all.
TEST_F(Attachments, a_slow_peer_with_many_addresses_is_one_peer) {
    const AttachmentServer server = server_at(first);
    first.options().upload_bytes_per_s = 1.5e4;  // 53 s for the file
    const std::string one = address(first);
    const std::string elsewhere = unreachable_address();
    const std::string another =
        elsewhere.substr(0, elsewhere.find("/p2p/")) + "/p2p/" + first.id().text();
    const auto got = fetch(wish({another, one, one, one}));
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(*got, file);
}

TEST_F(Attachments, nobody_learns_a_file_without_the_runs_secret) {
    const AttachmentServer server = server_at(first);
    AttachmentWish stranger = wish({address(first)});
    stranger.authorizer = std::make_shared<SecretAuthorizer>(Bytes(16, 8));
    const auto got = fetch(std::move(stranger));
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().kind(), ErrorKind::denied);
}

TEST_F(Attachments, another_file_of_the_same_length_is_refused_and_the_next_peer_asked) {
    const AttachmentServer server = server_at(second);
    FalseAnswer answer;
    answer.bytes = 5;
    answer.piece = Bytes(5, 1);
    lie(first, answer);
    const auto alone = fetch(wish({address(first)}));
    ASSERT_FALSE(alone);
    EXPECT_EQ(alone.error().kind(), ErrorKind::peer_broke_protocol);
    const auto got = fetch(wish({address(first), address(second)}));
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(*got, file);
}

TEST_F(Attachments, a_peer_can_neither_send_more_than_is_taken_nor_nothing_for_ever) {
    for (const auto& [bytes, piece] : {std::pair<std::uint64_t, std::size_t>{file_bytes + 1, 1},
                                       {10, 11},
                                       {10, 0},
                                       {10, 1},
                                       {file_bytes, attachment_piece_bytes_max - 1},
                                       {file_bytes, attachment_piece_bytes_max + 1}}) {
        first.host().remove_handler(attachment_method);
        FalseAnswer answer;
        answer.bytes = bytes;
        answer.piece = Bytes(piece, 1);
        lie(first, answer);
        const auto got = fetch(wish({address(first)}));
        ASSERT_FALSE(got) << bytes << " " << piece;
        EXPECT_EQ(got.error().kind(), ErrorKind::peer_broke_protocol) << bytes << " " << piece;
    }
}

}  // namespace
}  // namespace dedloc::membership
