#include "dedloc/planner/split.h"

#include <algorithm>
#include <cmath>
#include <glpk.h>
#include <gtest/gtest.h>
#include <numeric>

#include "dedloc/base/random.h"
#include "dedloc/planner/planner_testing.h"

namespace dedloc::planner {
namespace {

std::vector<PeerRates> repeat(std::size_t times, const PeerRates& peer) {
    return std::vector<PeerRates>(times, peer);
}

std::vector<PeerRates> operator+(std::vector<PeerRates> a, const std::vector<PeerRates>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

std::uint64_t sum(const Split& split) {
    return std::accumulate(
        split.part_elements.begin(), split.part_elements.end(), std::uint64_t{0});
}

double share(const Split& split, std::size_t peer) {
    return static_cast<double>(split.part_elements[peer]) / static_cast<double>(sum(split));
}

TEST(Split, equal_links_give_equal_parts) {
    for (const std::size_t peers_count : {1u, 2u, 3u, 4u, 7u, 16u, 100u}) {
        const auto split = split_elements(repeat(peers_count, megabits(100, 100)), 1'000'003);
        ASSERT_TRUE(split);
        EXPECT_EQ(sum(*split), 1'000'003u);
        const auto [low, high] =
            std::minmax_element(split->part_elements.begin(), split->part_elements.end());
        EXPECT_LE(*high - *low, 1u) << peers_count;
    }
}

TEST(Split, the_papers_four_networks) {
    const auto a = repeat(8, megabits(1000, 1000));
    const auto b = repeat(16, megabits(200, 200));
    const auto d = b + repeat(1, megabits(2500, 2500));
    EXPECT_NEAR(split_elements(a, resnet_elements)->seconds, 0.7156, 0.0072);
    EXPECT_NEAR(split_elements(b, resnet_elements)->seconds, 3.833, 0.038);
    const auto mixed = split_elements(a + b, resnet_elements);
    EXPECT_NEAR(mixed->seconds, 2.044, 0.0204);
    for (std::size_t peer = 0; peer < 24; ++peer) {
        EXPECT_NEAR(share(*mixed, peer), peer < 8 ? 0.125 : 0, 1e-6) << "slow peers own nothing";
    }
    const auto server = split_elements(d, resnet_elements);
    EXPECT_NEAR(server->seconds, 2.300, 0.023);
    EXPECT_NEAR(share(*server, 16), 0.87, 0.01) << "nearly a parameter server";
}

// Averages of 15 contributions each: a home sends what it brings, and its part of what the others
// bring to all of them.
TEST(Split, averages_that_nobody_adds_cost_the_contributions_of_all_others) {
    auto homes = repeat(16, {.upload_per_s = 1000, .download_per_s = 10'000});
    for (PeerRates& home : homes) home.average_cost = 15;
    const auto split = split_elements(homes, 160'000);
    ASSERT_TRUE(split);
    for (const std::uint64_t part : split->part_elements) EXPECT_EQ(part, 10'000u);
    EXPECT_NEAR(split->seconds, (150'000 + 15 * 15 * 10'000) / 1000.0, 1e-6);
    for (const Traffic& one : traffic(homes, split->part_elements)) {
        EXPECT_NEAR(one.sent_elements, 15 * 160'000, 1);
        EXPECT_NEAR(one.received_elements, 15 * 160'000, 1);
    }
    // A fast line that only helps takes it all: each home then sends no more than its own.
    homes.push_back({.upload_per_s = 1e7,
                     .download_per_s = 1e7,
                     .contributes = false,
                     .receives = false,
                     .average_cost = 15});
    const auto helped = split_elements(homes, 160'000);
    ASSERT_TRUE(helped);
    EXPECT_NEAR(helped->seconds, 15 * 160'000 / 10'000.0, 1);
}

TEST(Split, who_has_hardly_room_beside_its_own_contribution_owns_nothing_while_others_have) {
    // Set-up C as peers measure it: every rate a few percent off.
    auto peers = repeat(8, megabits(1000, 1000)) + repeat(16, megabits(200, 195));
    peers[3].upload_per_s *= 0.9;
    peers[20].upload_per_s *= 1.1;
    const auto split = split_elements(peers, resnet_elements);
    ASSERT_TRUE(split);
    for (std::size_t peer = 0; peer < 24; ++peer)
        EXPECT_EQ(split->part_elements[peer] > 0, peer < 8) << peer;
    EXPECT_NEAR(share(*split, 3) / share(*split, 4), 0.87, 0.01) << "their lines are equally full";
    EXPECT_NEAR(split->seconds, 2.044 * 200 / 195, 0.0204);
}

TEST(Split, an_aggregator_takes_everything_from_slow_uploaders) {
    const auto workers = repeat(8, megabits(20, 100));
    EXPECT_NEAR(split_elements(workers, resnet_elements)->seconds, 35.8, 0.36);
    PeerRates aggregator = megabits(1000, 1000);
    aggregator.contributes = aggregator.receives = false;
    const auto split = split_elements(workers + repeat(1, aggregator), resnet_elements);
    EXPECT_NEAR(split->seconds, 20.45, 0.2);
    EXPECT_NEAR(share(*split, 8), 1, 1e-6);
    EXPECT_EQ(split->bottleneck, Bottleneck::upload);
}

TEST(Split, peers_that_nobody_can_dial_own_nothing) {
    // The paper notes' case: 8 peers of 100 Mb/s with the same network, four behind NAT.
    auto peers = repeat(8, megabits(100, 100));
    const double all = split_elements(peers, resnet_elements)->seconds;
    EXPECT_NEAR(all, 7.156, 0.07);
    for (std::size_t peer = 0; peer < 4; ++peer) peers[peer].owns_allowed = false;
    const auto split = split_elements(peers, resnet_elements);
    EXPECT_NEAR(split->seconds, 10.22, 0.1);
    for (std::size_t peer = 0; peer < 8; ++peer) {
        EXPECT_NEAR(share(*split, peer), peer < 4 ? 0 : 0.25, 1e-6);
        if (peer < 4) {
            EXPECT_EQ(split->part_elements[peer], 0u);
        }
    }
}

TEST(Split, a_peer_alone_owns_everything_at_once) {
    const auto split = split_elements(repeat(1, megabits(0, 0)), 42);
    ASSERT_TRUE(split) << "its rates do not matter";
    EXPECT_EQ(split->part_elements, std::vector<std::uint64_t>{42});
    EXPECT_EQ(split->seconds, 0);
    EXPECT_EQ(split->explanation, "Peer 0 reduces the whole vector, and nothing has to travel.");
}

TEST(Split, the_only_receiver_may_be_unable_to_send) {
    // Everybody sends to peer 0, who keeps the result: its upload is not needed.
    auto peers = repeat(4, megabits(10, 10));
    for (std::size_t peer = 1; peer < 4; ++peer) peers[peer].receives = false;
    peers[0].upload_per_s = 0;
    const auto split = split_elements(peers, 1'000'000);
    ASSERT_TRUE(split);
    EXPECT_EQ(split->part_elements[0], 1'000'000u);
    EXPECT_NEAR(split->seconds, 3 * 1e6 / (10e6 / 16), 1e-6);
}

TEST(Split, small_parts_are_given_to_others) {
    const auto peers = repeat(16, megabits(200, 200)) + repeat(1, megabits(2500, 2500));
    const std::uint64_t elements = 1'000'000;
    const auto all = split_elements(peers, elements);
    EXPECT_GT(all->part_elements[0], 0u);
    const auto few = split_elements(peers, elements, {.part_elements_min = 10'000});
    EXPECT_EQ(sum(*few), elements);
    EXPECT_GE(few->seconds, all->seconds);
    for (const std::uint64_t part : few->part_elements) EXPECT_TRUE(part == 0 || part >= 10'000);
}

TEST(Split, a_vector_too_short_for_all_has_few_owners) {
    const auto peers = repeat(100, megabits(100, 100));
    const auto split = split_elements(peers, 1000, {.part_elements_min = 100});
    EXPECT_EQ(sum(*split), 1000u);
    const auto owners = std::count_if(split->part_elements.begin(),
                                      split->part_elements.end(),
                                      [](std::uint64_t part) { return part > 0; });
    EXPECT_GE(owners, 5);
    EXPECT_LE(owners, 10);
    for (const std::uint64_t part : split->part_elements) EXPECT_TRUE(part == 0 || part >= 100);
    const auto tiny = split_elements(peers, 7, {.part_elements_min = 100});
    EXPECT_EQ(sum(*tiny), 7u);
    EXPECT_EQ(*std::max_element(tiny->part_elements.begin(), tiny->part_elements.end()), 7u);
    EXPECT_EQ(sum(*split_elements(peers, 0, {.part_elements_min = 100})), 0u);
}

TEST(Split, the_explanation_names_the_bottleneck) {
    auto peers = repeat(3, megabits(1000, 1000));
    peers[1].upload_per_s = 1000;
    const auto split = split_elements(peers, 1'000'000);
    EXPECT_EQ(split->bottleneck, Bottleneck::upload);
    EXPECT_EQ(split->bottleneck_peer, 1u);
    EXPECT_EQ(split->explanation.find("the upload of peer 1 sets the time") != std::string::npos,
              true)
        << split->explanation;
    EXPECT_EQ(split->explanation.back(), '.');
}

TEST(Split, impossible_input_is_an_error_that_names_the_peer) {
    const auto kind_and_word = [](const std::vector<PeerRates>& peers, std::string_view word) {
        const auto split = split_elements(peers, 100);
        ASSERT_FALSE(split);
        EXPECT_EQ(split.error().kind(), ErrorKind::bad_input);
        EXPECT_NE(split.error().message().find(word), std::string::npos) << split.error().message();
    };
    const auto good = repeat(2, megabits(1, 1));
    kind_and_word({}, "needs 1 to");
    kind_and_word(good + repeat(1, {.upload_per_s = NAN, .download_per_s = 1}), "peer 2");
    kind_and_word(good + repeat(1, {.upload_per_s = -1, .download_per_s = 1}), "peer 2");
    kind_and_word(good + repeat(1, {.upload_per_s = INFINITY, .download_per_s = 1}), "peer 2");
    kind_and_word(good + repeat(1, {.upload_per_s = 0, .download_per_s = 1}), "cannot send");
    kind_and_word(good + repeat(1, {.upload_per_s = 1, .download_per_s = 0}), "cannot download");
    PeerRates idle = megabits(1, 1);
    idle.contributes = false;
    kind_and_word(repeat(2, idle), "contributes");
    PeerRates hidden = megabits(1, 1);
    hidden.owns_allowed = false;
    kind_and_word(repeat(2, hidden), "dialled");
    EXPECT_FALSE(split_elements(good, elements_max + 1));
}

TEST(Apportion, counts_sum_exactly_and_stay_within_one_of_their_quota) {
    Random random(3);
    for (int turn = 0; turn < 2000; ++turn) {
        std::vector<double> shares(1 + random.below(40));
        for (double& value : shares) value = random.chance(0.2) ? 0 : random.exponential(1);
        shares[random.below(shares.size())] = 1;
        const std::uint64_t total = random.below(turn % 2 == 0 ? 50 : 1'000'000'000);
        const auto parts = apportion(shares, total);
        const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
        std::uint64_t given = 0;
        for (std::size_t i = 0; i < shares.size(); ++i) {
            given += parts[i];
            const double quota = shares[i] / all * static_cast<double>(total);
            EXPECT_LT(std::abs(static_cast<double>(parts[i]) - quota), 1 + 1e-6);
            if (shares[i] == 0) {
                EXPECT_EQ(parts[i], 0u);
            }
        }
        EXPECT_EQ(given, total);
    }
    EXPECT_EQ(apportion(std::vector<double>{1, 1, 1}, 4), (std::vector<std::uint64_t>{2, 1, 1}));
    EXPECT_EQ(apportion(std::vector<double>{1, 1}, elements_max),
              (std::vector<std::uint64_t>{elements_max / 2, elements_max / 2}));
}

TEST(Split, limits_of_links_are_checked) {
    const auto peers = repeat(3, megabits(1, 1));
    const auto message = [&](const std::vector<LinkLimit>& links) {
        const auto split = split_elements(peers, 100, {.links = links});
        EXPECT_FALSE(split);
        return split ? "" : split.error().message();
    };
    EXPECT_EQ(message({{0, 3, 1}}), "there is no link from peer 0 to peer 3 in a plan of 3 peers");
    EXPECT_EQ(message({{1, 1, 1}}), "there is no link from peer 1 to peer 1 in a plan of 3 peers");
    EXPECT_EQ(message({{0, 1, -1}}), "the link from peer 0 to peer 1 has the rate -1");
    EXPECT_EQ(message({{0, 1, INFINITY}}), "the link from peer 0 to peer 1 has the rate inf");
    EXPECT_NE(message({{0, 1, 0}, {1, 2, 0}}).find("peer 0 cannot reach peer 1"),
              std::string::npos);
    EXPECT_NE(message(std::vector<LinkLimit>(links_max + 1)).find("too many"), std::string::npos);
}

TEST(Split, of_two_limits_of_a_link_the_lower_one_holds) {
    const auto peers = repeat(2, megabits(100, 100));
    const std::vector<LinkLimit> links = {{0, 1, 5000}, {0, 1, 1000}, {1, 0, 1e12}};
    EXPECT_NEAR(split_elements(peers, 1'000'000, {.links = links})->seconds, 1000, 1e-6);
}

TEST(Split, small_parts_are_given_to_others_with_limits_of_links_too) {
    Random random(9);
    for (int turn = 0; turn < 50; ++turn) {
        std::vector<PeerRates> peers(12);
        for (PeerRates& peer : peers)
            peer = megabits(random.uniform(10, 1000), random.uniform(10, 1000));
        std::vector<LinkLimit> links;
        for (std::uint32_t from = 0; from < peers.size(); ++from)
            for (std::uint32_t to = 0; to < peers.size(); ++to)
                if (from != to && random.chance(0.5))
                    links.push_back({from, to, random.uniform(1e4, 1e6)});
        const auto all = split_elements(peers, resnet_elements, {.links = links});
        const auto few = split_elements(
            peers, resnet_elements, {.part_elements_min = 1'000'000, .links = links});
        ASSERT_TRUE(all && few) << turn;
        EXPECT_EQ(sum(*few), resnet_elements);
        EXPECT_GE(few->seconds, all->seconds * (1 - 1e-5));  // whole elements
        for (const std::uint64_t part : few->part_elements)
            EXPECT_TRUE(part == 0 || part >= 1'000'000) << turn;
    }
}

// The compact LP, solved by somebody else: variables m_1 .. m_n and X, maximise X.
class GlpkReference {
  public:
    explicit GlpkReference(std::span<const PeerRates> peers) : peers_(peers) {
        glp_term_out(GLP_OFF);
        problem_ = glp_create_prob();
        glp_set_obj_dir(problem_, GLP_MAX);
        size_ = static_cast<int>(peers.size());
        glp_add_cols(problem_, size_ + 1);
        for (int i = 1; i <= size_; ++i) {
            const bool owner = peers[static_cast<std::size_t>(i - 1)].owns_allowed;
            glp_set_col_bnds(problem_, i, owner ? GLP_LO : GLP_FX, 0, 0);
        }
        glp_set_col_bnds(problem_, size_ + 1, GLP_LO, 0, 0);
        glp_set_obj_coef(problem_, size_ + 1, 1);
    }
    ~GlpkReference() { glp_delete_prob(problem_); }
    GlpkReference(const GlpkReference&) = delete;
    GlpkReference& operator=(const GlpkReference&) = delete;

    double largest_total() {
        double contributors = 0;
        double receivers = 0;
        for (const PeerRates& peer : peers_) {
            contributors += peer.contributes;
            receivers += peer.receives;
        }
        for (int i = 1; i <= size_; ++i) {
            const PeerRates& peer = peers_[static_cast<std::size_t>(i - 1)];
            const double c = peer.contributes;
            const double r = peer.receives;
            add_row(i, receivers - r - c, c, peer.upload_per_s);
            add_row(i, contributors - c - r, r, peer.download_per_s);
        }
        std::vector<int> indices(static_cast<std::size_t>(size_) + 2);
        std::iota(indices.begin(), indices.end(), 0);
        std::vector<double> values(indices.size(), 1);
        values.back() = -1;
        const int row = glp_add_rows(problem_, 1);
        glp_set_row_bnds(problem_, row, GLP_FX, 0, 0);
        glp_set_mat_row(problem_, row, size_ + 1, indices.data(), values.data());
        glp_smcp parameters;
        glp_init_smcp(&parameters);
        parameters.msg_lev = GLP_MSG_OFF;
        parameters.tol_bnd = 1e-12;
        parameters.tol_dj = 1e-12;
        EXPECT_EQ(glp_simplex(problem_, &parameters), 0);
        EXPECT_EQ(glp_get_status(problem_), GLP_OPT);
        return glp_get_obj_val(problem_);
    }

  private:
    // own * m_i + all * X <= rate
    void add_row(int i, double own, double all, double rate) {
        const int row = glp_add_rows(problem_, 1);
        glp_set_row_bnds(problem_, row, GLP_UP, 0, rate);
        const int indices[] = {0, i, size_ + 1};
        const double values[] = {0, own, all};
        glp_set_mat_row(problem_, row, 2, indices, values);
    }

    std::span<const PeerRates> peers_;
    glp_prob* problem_;
    int size_;
};

// All pairs of 64 are limited, by a few equal rates: many ways are equally good, and many steps
// gain nothing.
TEST(Split, with_many_equal_limits_of_links_still_ends_at_the_optimum) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
        Random random(seed);
        const std::vector<PeerRates> peers(64, {.upload_per_s = 1e6, .download_per_s = 1e6});
        std::vector<LinkLimit> links;
        for (std::uint32_t from = 0; from < peers.size(); ++from)
            for (std::uint32_t to = 0; to < peers.size(); ++to)
                if (from != to)
                    links.push_back({from, to, 1000.0 * static_cast<double>(1 + random.below(4))});
        constexpr std::uint64_t elements = std::uint64_t{1} << 50;
        const auto split = split_elements(peers, elements, {.links = links});
        ASSERT_TRUE(split) << split.error().message();
        // Every pair shares at least 1000 a second, so 500 each are possible; nobody has a partner
        // with whom it could have more, as one of 63 links has the lowest limit nearly surely.
        EXPECT_NEAR(static_cast<double>(elements) / split->seconds, 64 * 500, 1e-3)
            << "seed " << seed;
    }
}

TEST(Split, gives_nothing_to_the_slowest_beyond_what_a_programme_with_links_holds) {
    constexpr std::size_t peers_count = 1100;
    Random random(1);
    std::vector<PeerRates> peers(peers_count);
    for (PeerRates& peer : peers)
        peer = {.upload_per_s = random.uniform(1e6, 2e6), .download_per_s = 4e6};
    const std::vector<LinkLimit> links = {{0, 1, 1}, {2, 3, 1}};
    const auto split = split_elements(peers, std::uint64_t{1} << 50, {.links = links});
    ASSERT_TRUE(split) << split.error().message();
    std::size_t owners = 0;
    for (const std::uint64_t part : split->part_elements) owners += part > 0 ? 1 : 0;
    EXPECT_LE(owners, 1024u);
    EXPECT_GT(owners, 900u);
}

TEST(Split, a_thousand_random_groups_reach_the_optimum_that_glpk_finds) {
    int solved = 0;
    double worst = 0;
    for (std::uint64_t seed = 0; solved < 1000; ++seed) {
        ASSERT_LT(seed, 5000u);
        Random random(seed);
        std::vector<PeerRates> peers(1 + random.below(12));
        for (PeerRates& peer : peers) {
            peer.upload_per_s = std::exp2(random.uniform(0, 8));
            peer.download_per_s = std::exp2(random.uniform(0, 8));
            peer.contributes = random.chance(0.7);
            peer.receives = random.chance(0.8);
            peer.owns_allowed = random.chance(0.8);
        }
        constexpr std::uint64_t elements = std::uint64_t{1} << 50;  // integers do not matter
        const auto split = split_elements(peers, elements);
        if (!split || split->seconds == 0) continue;  // nobody contributes, owns or travels
        ++solved;
        EXPECT_EQ(sum(*split), elements);
        for (std::size_t i = 0; i < peers.size(); ++i) {
            if (!peers[i].owns_allowed) {
                EXPECT_EQ(split->part_elements[i], 0u);
            }
        }
        const double best = static_cast<double>(elements) / GlpkReference(peers).largest_total();
        const double difference = std::abs(split->seconds - best) / best;
        worst = std::max(worst, difference);
        ASSERT_LE(difference, 1e-9) << "seed " << seed;
    }
    RecordProperty("worst_relative_difference", fmt::format("{:.2e}", worst));
}

}  // namespace
}  // namespace dedloc::planner
