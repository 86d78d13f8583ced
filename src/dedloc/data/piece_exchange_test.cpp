// Pieces of a run's data in virtual time: a host, homes that take them from each other, and liars.

#include "dedloc/data/piece_exchange.h"

#include <gtest/gtest.h>

#include "dedloc/base/random.h"
#include "dedloc/membership/secret_authorizer.h"
#include "dedloc/security/hash.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/message.h"

namespace dedloc::data {
namespace {

constexpr std::size_t pieces_count = 100;

Bytes content_of(std::uint64_t index) {
    Random random(index + 1);
    return random.bytes(1000 + static_cast<std::size_t>(random.below(9000)));
}

class PieceExchanges : public ::testing::Test {
  protected:
    PieceExchanges() {
        std::vector<std::uint32_t> sizes;
        for (std::size_t i = 0; i < pieces_count; ++i)
            sizes.push_back(static_cast<std::uint32_t>(content_of(i).size()));
        auto made = catalogue_of(std::move(sizes),
                                 to_bytes("table"),
                                 [](std::uint64_t i) -> Result<Bytes> { return content_of(i); });
        own = *std::move(made);
        catalogue = std::make_shared<const Catalogue>(own.catalogue);
        name = security::sha256(wire::encode(own.catalogue));
    }
    ~PieceExchanges() override {
        for (auto& exchange : exchanges) world.run_task(exchange->stop());
    }

    std::unique_ptr<PieceExchange> exchange_at(sim::SimNode& node,
                                               std::shared_ptr<PieceStore> store,
                                               Bytes with_secret) {
        ExchangeOptions options{
            .name = name,
            .catalogue = catalogue,
            .store = std::move(store),
            .authorizer = std::make_shared<membership::SecretAuthorizer>(std::move(with_secret)),
            .told = [this](DataNews what, const PeerId& peer, std::string) {
                news.emplace_back(what, peer);
            }};
        return std::make_unique<PieceExchange>(node.runtime(), node.host(), std::move(options));
    }
    PieceExchange& host() {
        exchanges.push_back(
            exchange_at(world.add_node({.name = "host"}), std::make_shared<OwnStore>(own), secret));
        return *exchanges.back();
    }
    sim::SimNode& node_of(const std::string& given) { return world.add_node({.name = given}); }
    PieceExchange& home(sim::SimNode& node, std::uint64_t cache_bytes = 1u << 30) {
        auto store = std::make_shared<PieceCache>(node.disk(), "data", catalogue, cache_bytes);
        stores.push_back(store);
        exchanges.push_back(exchange_at(node, store, secret));
        meet();
        return *exchanges.back();
    }

    static Task<void> dial_all(sim::World& world) {
        for (std::size_t i = 0; i < world.nodes_count(); ++i)
            for (std::size_t j = 0; j < i; ++j) {
                if (!world.node(i).alive() || !world.node(j).alive()) continue;
                const TimePoint until = world.node(i).clock().now() + Duration(5s);
                PeerId peer = world.node(j).id();
                (void)co_await world.node(i).host().connect(peer, until);
            }
    }
    void meet() { world.run_task(dial_all(world)); }

    static Task<void> get_one(PieceExchange& from, std::uint64_t index, Result<Bytes>& out) {
        out = co_await from.piece(index);
    }
    Result<Bytes> get(PieceExchange& from, std::uint64_t index) {
        Result<Bytes> out = make_error(ErrorKind::cancelled, "not run");
        world.run_task(get_one(from, index, out));
        return out;
    }
    std::size_t count(DataNews wanted) const {
        return static_cast<std::size_t>(
            std::ranges::count(news, wanted, [](const auto& entry) { return entry.first; }));
    }

    sim::World world{1848};
    OwnPieces own;
    std::shared_ptr<const Catalogue> catalogue;
    Digest name;
    Bytes secret = Bytes(16, 7);
    std::vector<std::pair<DataNews, PeerId>> news;
    std::vector<std::shared_ptr<PieceStore>> stores;
    std::vector<std::unique_ptr<PieceExchange>> exchanges;
};

TEST_F(PieceExchanges, a_newcomer_has_the_first_piece_within_a_second_and_no_other) {
    PieceExchange& from = host();
    PieceExchange& newcomer = home(node_of("newcomer"));
    const TimePoint asked = world.now();
    const auto got = get(newcomer, 42);
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(*got, content_of(42));
    EXPECT_LT(world.now() - asked, Duration(2s));
    EXPECT_EQ(from.stats().bytes_sent, content_of(42).size());
}

TEST_F(PieceExchanges, what_another_home_has_is_not_taken_from_the_host) {
    PieceExchange& from = host();
    PieceExchange& first = home(node_of("first"));
    ASSERT_TRUE(get(first, 7));
    const std::uint64_t sent = from.stats().bytes_sent;
    PieceExchange& second = home(node_of("second"));
    const auto got = get(second, 7);
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, content_of(7));
    EXPECT_EQ(from.stats().bytes_sent, sent);
    EXPECT_EQ(first.stats().bytes_sent, content_of(7).size());
}

TEST_F(PieceExchanges, once_one_copy_is_out_the_host_may_leave) {
    PieceExchange& from = host();
    PieceExchange& first = home(node_of("first"));
    PieceExchange& second = home(node_of("second"));
    PieceExchange& third = home(node_of("third"));
    ASSERT_TRUE(get(first, 0));
    ASSERT_TRUE(world.run_until(
        [&] {
            for (std::uint64_t i = 0; i < pieces_count; ++i)
                if (std::ranges::none_of(stores, [&](const auto& s) { return s->has(i); }))
                    return false;
            return true;
        },
        10min));
    EXPECT_LE(static_cast<double>(from.stats().bytes_sent),
              1.1 * static_cast<double>(catalogue->bytes()));
    world.node("host").kill();
    for (std::uint64_t i = 0; i < pieces_count; ++i)
        for (PieceExchange* one : {&first, &second, &third}) {
            const auto got = get(*one, i);
            ASSERT_TRUE(got) << i << ": " << to_string(got.error());
            ASSERT_EQ(*got, content_of(i));
        }
    EXPECT_EQ(count(DataNews::gone), 0u);
}

TEST_F(PieceExchanges, a_piece_that_lies_is_refused_its_sender_named_and_another_asked) {
    host();
    sim::SimNode& liar = node_of("liar");
    PieceExchange& false_home = home(liar);
    ASSERT_TRUE(get(false_home, 3));
    world.on_send([&](const sim::World::Outgoing& sent) {
        if (sent.from != liar.index() || !sent.is_answer || sent.method != pieces_method) return;
        auto reply = wire::decode<PiecesReply>(sent.payload);
        if (!reply || reply->pieces.empty()) return;
        reply->pieces.front().content.front() ^= 1;
        sent.payload = wire::encode(*reply);
    });
    PieceExchange& honest = home(node_of("honest"));
    const auto got = get(honest, 3);
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(*got, content_of(3));
    EXPECT_EQ(honest.stats().lies, 1u);
    ASSERT_EQ(count(DataNews::lied), 1u);
    EXPECT_EQ(news.front().second, liar.id());
}

TEST_F(PieceExchanges, a_piece_that_nobody_has_is_told_as_gone_and_found_when_one_comes_with_it) {
    host();
    sim::SimNode& keeper_machine = node_of("keeper");
    PieceExchange& keeper = home(keeper_machine);
    ASSERT_TRUE(get(keeper, 5));
    world.node("host").kill();
    world.partition({{"keeper"}});
    PieceExchange& other = home(node_of("other"));
    const auto lost = get(other, 5);
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().kind(), ErrorKind::not_found);
    EXPECT_EQ(count(DataNews::gone), 1u);
    world.heal();
    meet();
    ASSERT_TRUE(world.run_until([&] { return count(DataNews::found_again) > 0; }, 5min));
    const auto got = get(other, 5);
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(*got, content_of(5));
}

TEST_F(PieceExchanges, nobody_gets_data_without_the_runs_secret) {
    PieceExchange& from = host();
    sim::SimNode& node = node_of("stranger");
    auto store = std::make_shared<PieceCache>(node.disk(), "data", catalogue, 1u << 30);
    exchanges.push_back(exchange_at(node, store, Bytes(16, 8)));
    meet();
    EXPECT_FALSE(get(*exchanges.back(), 1));
    EXPECT_EQ(from.stats().bytes_sent, 0u);
}

TEST_F(PieceExchanges, the_cache_stays_within_its_bound_and_forgets_what_the_disk_damaged) {
    host();
    sim::SimNode& node = node_of("small");
    PieceExchange& small = home(node, 50'000);
    for (std::uint64_t i = 0; i < 40; ++i) {
        const auto got = get(small, i);
        ASSERT_TRUE(got);
        ASSERT_EQ(*got, content_of(i));
        ASSERT_LE(stores.front()->bytes(), 50'000u);
    }
    std::uint64_t last = 39;
    ASSERT_TRUE(stores.front()->has(last));
    Bytes damaged = *node.disk().read("data/0/39");
    damaged.back() ^= 1;
    ASSERT_TRUE(node.disk().write_atomically("data/0/39", damaged));
    const auto again = get(small, last);
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, content_of(last));
}

TEST_F(PieceExchanges, what_was_fetched_before_a_restart_is_there_after_it) {
    host();
    sim::SimNode& node = node_of("home");
    PieceExchange& first = home(node);
    ASSERT_TRUE(get(first, 11));
    const PieceCache again(node.disk(), "data", catalogue, 1u << 30);
    EXPECT_TRUE(again.has(11));
    EXPECT_FALSE(again.has(12));
}

TEST(Catalogues, one_without_pieces_or_with_a_piece_beyond_the_bound_is_refused) {
    Catalogue none;
    EXPECT_FALSE(parse_catalogue(wire::encode(none)));
    Catalogue large;
    large.sizes = {piece_bytes_max + 1};
    EXPECT_FALSE(parse_catalogue(wire::encode(large)));
    EXPECT_FALSE(parse_catalogue(to_bytes("no catalogue")));
}

}  // namespace
}  // namespace dedloc::data
