// Plans of rounds, by what members announce alone.

#include "dedloc/averaging/round_planner.h"

#include <gtest/gtest.h>

#include "dedloc/allreduce/chunking.h"
#include "dedloc/allreduce/plan_check.h"
#include "dedloc/security/toy_signature.h"

namespace dedloc::averaging {
namespace {

class AllAtOnce final : public allreduce::Reducer {
  public:
    std::uint32_t number() const override { return 9; }
    bool adds_up() const override { return false; }
    allreduce::ReducedPart reduce(const consensus::RoundPlan&,
                                  std::uint32_t,
                                  const std::vector<allreduce::PartInput>&) const override {
        return {};
    }
    allreduce::ReducedPart sum(const consensus::RoundPlan&,
                               std::uint32_t,
                               const std::vector<allreduce::PartInput>&) const override {
        return {};
    }
};

class RoundPlannerTest : public testing::Test {
  protected:
    RoundPlannerTest() {
        options_.vector_count = 1'000'000;
        for (std::uint64_t i = 0; i < 8; ++i) {
            Announce announce;
            announce.incarnation = i + 1;
            announce.input.fresh = {0, 100, 0};
            announce.upload_bytes_per_s = announce.download_bytes_per_s = 1e6;
            announce.dialable = true;
            announces_[security::toy_peer_id(i)] = announce;
        }
        for (const auto& [peer, announce] : announces_)
            base_.voters.push_back({peer, announce.incarnation, true});
    }
    PeerId leader() const { return security::toy_peer_id(0); }
    RoundQuestion question() const {
        return {.base = base_,
                .ballot = 3,
                .me = leader(),
                .options = options_,
                .announces = announces_,
                .not_owners = not_owners_};
    }
    consensus::RoundPlan plan() const {
        auto planned = plan_round(question());
        EXPECT_TRUE(planned);
        return planned ? std::move(planned->plan) : consensus::RoundPlan{};
    }
    static std::uint64_t owned(const consensus::RoundPlan& plan, const PeerId& peer) {
        std::uint64_t elements = 0;
        for (const consensus::PlanPart& part : plan.parts)
            if (plan.members[part.owner].peer == peer) elements += part.count;
        return elements;
    }

    consensus::Base base_;
    RoundOptions options_;
    std::map<PeerId, Announce> announces_;
    std::set<PeerId> not_owners_;
};

TEST_F(RoundPlannerTest, shares_the_vector_among_equal_members) {
    const consensus::RoundPlan plan = this->plan();
    EXPECT_TRUE(allreduce::check_plan(plan, options_));
    EXPECT_EQ(plan.leader, leader());
    EXPECT_EQ(plan.ballot, 3u);
    ASSERT_EQ(plan.members.size(), 8u);
    for (const consensus::PlanMember& member : plan.members)
        EXPECT_NEAR(static_cast<double>(owned(plan, member.peer)), 125e3, 8e3);
}

TEST_F(RoundPlannerTest, gives_nothing_to_those_who_may_not_own) {
    not_owners_ = {security::toy_peer_id(2)};
    announces_.at(security::toy_peer_id(3)).leaving = true;
    announces_.at(security::toy_peer_id(4)).dialable = false;
    const consensus::RoundPlan plan = this->plan();
    EXPECT_TRUE(allreduce::check_plan(plan, options_));
    for (const std::uint64_t i : {2, 3, 4}) EXPECT_EQ(owned(plan, security::toy_peer_id(i)), 0u);
    EXPECT_EQ(plan.standby.size(), 5u);
}

TEST_F(RoundPlannerTest, has_the_leader_own_all_where_nobody_else_may) {
    for (auto& [peer, announce] : announces_) announce.dialable = false;
    EXPECT_EQ(owned(plan(), leader()), options_.vector_count);
}

// An owner adds nothing of a sparse part: it sends each of the others what the other seven bring.
TEST_F(RoundPlannerTest, counts_a_gathered_average_as_the_contributions_of_all_others) {
    options_.codec = codec::CodecId::sparse;
    const double bytes = options_.element_bytes() * 1e6;
    const auto planned = plan_round(question());
    ASSERT_TRUE(planned);
    EXPECT_TRUE(allreduce::check_plan(planned->plan, options_));
    EXPECT_NEAR(planned->event.predicted_s, 7 * bytes / 1e6, 0.01);
    // A fast line that only helps then takes nearly all: the others send their own, and no more.
    Announce fast;
    fast.aggregator = fast.dialable = true;
    fast.upload_bytes_per_s = fast.download_bytes_per_s = 1e9;
    announces_[security::toy_peer_id(99)] = fast;
    for (auto& [peer, announce] : announces_)
        if (!announce.aggregator) announce.download_bytes_per_s = 1e7;
    EXPECT_GT(owned(plan(), security::toy_peer_id(99)), 900'000u);
}

// A message has room for the contributions of all members; each part costs a few, and a signature.
TEST_F(RoundPlannerTest, cuts_gathered_shares_into_as_few_parts_as_messages_hold) {
    options_.codec = codec::CodecId::sparse;
    options_.vector_count = 1u << 24;
    for (auto& [peer, announce] : announces_)
        announce.upload_bytes_per_s = announce.download_bytes_per_s = 1e9;
    const auto longest = [this](const consensus::RoundPlan& of) {
        return allreduce::longest_part(options_, options_.codec, of.members.size(), false);
    };
    const consensus::RoundPlan few = plan();
    EXPECT_TRUE(allreduce::check_plan(few, options_));
    EXPECT_EQ(longest(few), options_.part_elements_max);
    EXPECT_LE(few.parts.size(), 24u);
    for (std::uint64_t i = 8; i < 128; ++i)
        announces_[security::toy_peer_id(i)] = announces_.begin()->second;
    options_.group_max = 128;
    const consensus::RoundPlan many = plan();
    EXPECT_TRUE(allreduce::check_plan(many, options_));
    const auto chunk_bytes = codec::encoded_size(options_.codec, 4096);
    EXPECT_LE(longest(many) / 4096 * chunk_bytes * 128, allreduce::part_bytes_max);
}

// With more of them owners add, each of what all bring and send its own with.
TEST_F(RoundPlannerTest, has_contributors_add_sparse_parts_of_many) {
    options_.codec = codec::CodecId::sparse;
    options_.gather_max = 7;
    Announce helper;
    helper.aggregator = helper.dialable = true;
    helper.upload_bytes_per_s = helper.download_bytes_per_s = 1e9;
    announces_[security::toy_peer_id(99)] = helper;
    const PeerId idle = security::toy_peer_id(98);
    Announce only_receives = announces_.at(leader());
    only_receives.input = {};
    announces_[idle] = only_receives;
    base_.voters.push_back({idle, only_receives.incarnation, true});
    const auto planned = plan_round(question());
    ASSERT_TRUE(planned);
    const consensus::RoundPlan& plan = planned->plan;
    EXPECT_TRUE(allreduce::check_plan(plan, options_));
    EXPECT_EQ(plan.sum_codec, static_cast<std::uint32_t>(codec::CodecId::sparse_sum));
    EXPECT_EQ(plan.members.size(), 9u) << "an aggregator cannot help";
    EXPECT_EQ(owned(plan, idle), 0u);
    EXPECT_EQ(plan.standby.size(), 8u);
    const double bytes = options_.element_bytes() * 1e6;
    EXPECT_LT(planned->event.predicted_s, 6.5 * bytes / 1e6) << "7 times where they are gathered";
    options_.gather_max = 8;
    EXPECT_EQ(this->plan().sum_codec, 0u);
}

// A leader owns all where nobody else can be dialled; it gathers what it has no part in.
TEST_F(RoundPlannerTest, has_a_leader_that_brings_nothing_gather) {
    options_.codec = codec::CodecId::sparse;
    options_.gather_max = 3;
    for (auto& [peer, announce] : announces_) announce.dialable = false;
    EXPECT_NE(plan().sum_codec, 0u);
    announces_.at(leader()).input = {};
    const consensus::RoundPlan plan = this->plan();
    EXPECT_EQ(plan.sum_codec, 0u);
    EXPECT_EQ(owned(plan, leader()), options_.vector_count);
    EXPECT_TRUE(allreduce::check_plan(plan, options_));
}

// The median of the others is assumed of a line that nobody has measured.
TEST_F(RoundPlannerTest, names_a_measured_line_as_the_full_one_rather_than_an_assumed_one) {
    const PeerId slow = security::toy_peer_id(5);
    for (auto& [peer, announce] : announces_)
        if (peer != slow) announce.upload_bytes_per_s = announce.download_bytes_per_s = 0;
    const auto planned = plan_round(question());
    ASSERT_TRUE(planned);
    EXPECT_EQ(planned->event.bottleneck, "upload");
    EXPECT_EQ(planned->event.bottleneck_peer, slow.text());
}

TEST_F(RoundPlannerTest, makes_no_plan_where_nobody_brings_anything) {
    for (auto& [peer, announce] : announces_) announce.input = {};
    const auto planned = plan_round(question());
    ASSERT_FALSE(planned);
    EXPECT_EQ(planned.error().kind(), ErrorKind::not_found);
}

TEST_F(RoundPlannerTest, makes_a_grid_of_many_members_only_for_a_reducer_that_adds_up) {
    options_.group_max = 4;
    EXPECT_GT(plan().groups, 0u);
    options_.reducer = std::make_shared<AllAtOnce>();
    const consensus::RoundPlan plan = this->plan();
    EXPECT_EQ(plan.groups, 0u);
    EXPECT_EQ(plan.reducer, 9u);
    EXPECT_TRUE(allreduce::check_plan(plan, options_));
}

TEST_F(RoundPlannerTest, moves_the_fragment_of_the_step_and_nothing_else) {
    options_.vector_count = 1'000'001;
    const double whole_s = plan_round(question())->event.predicted_s;
    options_.fragments = 4;
    for (std::uint64_t step = 0; step < 5; ++step) {
        base_.instance.step = step;
        for (const std::size_t group_max : {64u, 4u}) {
            options_.group_max = group_max;
            const auto planned = plan_round(question());
            ASSERT_TRUE(planned);
            const consensus::RoundPlan& plan = planned->plan;
            EXPECT_TRUE(allreduce::check_plan(plan, options_));
            EXPECT_EQ(consensus::moved_range(plan), consensus::fragment_of(1'000'001, 4, step));
            EXPECT_EQ(plan.whole_count, 1'000'001u);
            EXPECT_EQ(plan.groups > 0, group_max == 4);
        }
        options_.group_max = 64;
        EXPECT_NEAR(plan_round(question())->event.predicted_s, whole_s / 4, whole_s / 40);
    }
}

TEST_F(RoundPlannerTest, plans_of_another_fragment_or_vector_are_refused) {
    const consensus::RoundPlan whole = plan();
    options_.fragments = 4;
    EXPECT_FALSE(allreduce::check_plan(whole, options_));
    const consensus::RoundPlan plan = this->plan();
    EXPECT_TRUE(allreduce::check_plan(plan, options_));
    consensus::RoundPlan changed = plan;
    changed.instance.step = 1;
    EXPECT_FALSE(allreduce::check_plan(changed, options_));
    changed = plan;
    changed.whole_count += 4;
    EXPECT_FALSE(allreduce::check_plan(changed, options_));
    options_.fragments = 1;
    EXPECT_FALSE(allreduce::check_plan(plan, options_));
}

// A fragment begins where it does: inside a tensor, and inside the range of a codec.
TEST_F(RoundPlannerTest, cuts_a_fragment_where_codecs_change) {
    options_.fragments = 4;
    options_.codec = codec::CodecId::blockwise8;
    options_.other_codecs = {codec::CodecId::fp32};
    options_.bounded_count = 990'000;
    options_.codec_ranges = {{0, 990'000, codec::CodecId::blockwise8},
                             {990'000, 10'000, codec::CodecId::fp32}};
    for (std::uint64_t step = 0; step < 4; ++step) {
        base_.instance.step = step;
        const consensus::RoundPlan plan = this->plan();
        EXPECT_TRUE(allreduce::check_plan(plan, options_)) << step;
        const bool has_buffers = plan.parts.back().codec.has_value();
        EXPECT_EQ(has_buffers, step == 3);
    }
}

}  // namespace
}  // namespace dedloc::averaging
