// Sums of sparse contributions among simulated peers: what owners send, and what they keep of it.

#include <gtest/gtest.h>

#include "dedloc/allreduce/allreduce_testing.h"
#include "dedloc/allreduce/plan_check.h"
#include "dedloc/allreduce/sparse_sums.h"

namespace dedloc::allreduce {
namespace {

constexpr std::uint64_t chunk = 4096;
constexpr std::size_t trainers = 3;

// Each of three trainers owns one of three chunks.
class ExchangeSums : public ExchangeGroup {
  protected:
    ExchangeSums() : ExchangeGroup(3) {
        options_.codec = codec::CodecId::sparse;
        options_.gather_max = 2;
        options_.vector_count = trainers * chunk;
        options_.part_elements_max = chunk;
        plan_.codec = static_cast<std::uint32_t>(codec::CodecId::sparse);
        plan_.sum_codec = static_cast<std::uint32_t>(codec::CodecId::sparse_sum);
        plan_.reduce_ms = 4000;
        plan_.round_ms = 8000;
        for (std::size_t i = 0; i < trainers; ++i) {
            nodes_.push_back(&world_.add_node());
            add_member(make_contribution(i, 10 + i * 3, options_.vector_count));
        }
        order_members();
        for (std::size_t i = 0; i < trainers; ++i) {
            plan_.parts.push_back({i * chunk, chunk, place(i)});
            plan_.standby.push_back(place(i));
        }
        EXPECT_TRUE(check_plan(plan_, options_));
        for (std::size_t i = 0; i < trainers; ++i) {
            members_.push_back(std::make_unique<ExchangePeer>(*nodes_[i], options_));
            members_[i]->begin(plan_, inputs_[i]);
        }
    }

    std::shared_ptr<const std::vector<float>> left_out(std::size_t node, std::uint32_t part) const {
        return members_[node]->rests().find(members_[0]->exchange->finished().at(part));
    }
    bool have_all(std::size_t count) {
        return world_.run_until(
            [&] {
                return std::all_of(members_.begin(),
                                   members_.begin() + static_cast<std::ptrdiff_t>(count),
                                   [](const auto& member) { return member->exchange->complete(); });
            },
            10s);
    }
};

TEST_F(ExchangeSums, everybody_gets_the_same_bytes_and_owners_keep_the_rest) {
    ASSERT_TRUE(have_all(trainers));
    const Bytes average = members_[0]->average();
    EXPECT_EQ(average.size(), codec::encoded_size(codec::CodecId::sparse_sum, trainers * chunk));
    for (std::size_t node = 1; node < trainers; ++node)
        EXPECT_EQ(members_[node]->average(), average);
    for (std::uint32_t part = 0; part < trainers; ++part)
        for (std::size_t node = 0; node < trainers; ++node) {
            const auto rest = left_out(node, part);
            ASSERT_EQ(rest != nullptr, node == part);
            if (rest) {
                EXPECT_EQ(rest->size(), chunk);
            }
        }
    consensus::FinishedPart other = members_[0]->exchange->finished().at(0);
    other.digest.bytes[0] ^= 1;
    EXPECT_EQ(members_[0]->rests().find(other), nullptr) << "another average";
    EXPECT_EQ(members_[0]->rests().bytes(), chunk * sizeof(float));
    members_[0]->forget_inputs();
    EXPECT_NE(left_out(0, 0), nullptr) << "the step is open";
}

// A leader that begins again has a new plan, and may yet propose what came of the one before.
TEST_F(ExchangeSums, a_rest_is_kept_until_the_step_is_decided) {
    ASSERT_TRUE(have_all(trainers));
    const consensus::FinishedPart first = members_[0]->exchange->finished().at(0);
    consensus::RoundPlan again = plan_;
    again.ballot = 1;
    members_[0]->begin_as(again, Digest{{1}}, inputs_[0]);
    EXPECT_NE(members_[0]->rests().find(first), nullptr);
    members_[0]->open_step.previous = Digest{{7}};
    members_[0]->forget_inputs();
    EXPECT_EQ(members_[0]->rests().find(first), nullptr);
    EXPECT_EQ(members_[0]->rests().bytes(), 0u);
}

// The owner of a repair brings its own whole, and keeps the rest, as the one that died would have.
TEST_F(ExchangeSums, an_owner_that_dies_leaves_its_sum_to_another) {
    nodes_[2]->kill();
    ASSERT_TRUE(world_.run_until(
        [&] { return members_[0]->exchange->collected().failed_parts().size() == 1; }, 8s));
    Repair repair;
    repair.number = 1;
    repair.parts = {2};
    repair.owners = {place(1)};
    for (std::size_t i = 0; i < 2; ++i) members_[i]->exchange->add_repair(repair);
    ASSERT_TRUE(have_all(2));
    EXPECT_EQ(members_[0]->average(), members_[1]->average());
    const consensus::FinishedPart& repaired = members_[0]->exchange->finished().at(2);
    EXPECT_EQ(repaired.repair, 1u);
    EXPECT_FALSE(repaired.includes(place(2)));
    ASSERT_NE(left_out(1, 2), nullptr);
    EXPECT_EQ(left_out(0, 2), nullptr);
    // All that was brought is in what is sent or in what is left.
    std::vector<float> mean(chunk);
    ASSERT_TRUE(codec::decode(
        codec::CodecId::sparse_sum, ByteView(members_[0]->average()).subspan(2 * 456), mean));
    std::vector<float> sent(chunk);
    ASSERT_TRUE(codec::decode(
        codec::CodecId::sparse,
        codec::encode(codec::CodecId::sparse, std::span(inputs_[0]->sum).subspan(2 * chunk)),
        sent));
    for (std::size_t e = 0; e < chunk; ++e)
        ASSERT_NEAR(
            (*left_out(1, 2))[e] + mean[e] * 23.0f, sent[e] + inputs_[1]->sum[2 * chunk + e], 1e-3)
            << e;
}

}  // namespace
}  // namespace dedloc::allreduce
