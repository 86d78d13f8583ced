// The data of one plan among simulated peers: contributors, owners, and aggregators that only own.

#include "dedloc/allreduce/exchange.h"

#include <gtest/gtest.h>

#include "dedloc/allreduce/allreduce_testing.h"
#include "dedloc/allreduce/plan_check.h"
#include "dedloc/wire/message.h"

namespace dedloc::allreduce {
namespace {

constexpr std::uint64_t elements = 6000;
constexpr std::uint64_t part_elements = 500;

// Three trainers n0, n1, n2 with contributions, and n3 without.
class ExchangeTest : public ExchangeGroup {
  protected:
    ExchangeTest() : ExchangeGroup(3) {
        for (int i = 0; i < 4; ++i) nodes_.push_back(&world_.add_node());
    }

    void forget() {
        stop_members();
        inputs_.clear();
        plan_ = consensus::RoundPlan{};
    }
    void begin(std::size_t count, codec::CodecId codec, std::size_t reduce_bytes_max = 0) {
        options_.codec = codec;
        options_.vector_count = elements;
        options_.part_elements_max = part_elements;
        options_.reduce_bytes_max = reduce_bytes_max;
        plan_.codec = static_cast<std::uint32_t>(codec);
        plan_.reduce_ms = 4000;
        plan_.round_ms = 8000;
        for (std::size_t i = 0; i < count; ++i)
            add_member(i < 3 ? make_contribution(i, 10 + i * 3, elements) : nullptr, i == 3);
        order_members();
        for (std::size_t i = 0; i < count; ++i) plan_.standby.push_back(place(i));
    }
    // Parts of equal size, owned by these nodes in turn.
    void give_parts_to(const std::vector<std::size_t>& owners) {
        for (std::uint64_t at = 0; at < elements; at += part_elements)
            plan_.parts.push_back(
                {at, part_elements, place(owners[plan_.parts.size() % owners.size()])});
        EXPECT_TRUE(check_plan(plan_, options_));
    }
    void start() {
        for (std::size_t i = 0; i < plan_.members.size(); ++i) {
            members_.push_back(std::make_unique<ExchangePeer>(*nodes_[i], options_));
            members_[i]->begin(plan_, inputs_[i]);
        }
    }
    bool trainers_have_all(Duration within = 10s) {
        return world_.run_until(
            [&] {
                return std::all_of(members_.begin(), members_.begin() + 3, [](const auto& member) {
                    return member->exchange->complete();
                });
            },
            within);
    }
    void expect_everybody_included() {
        for (const auto& [part, header] : members_[0]->exchange->finished())
            for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(header.includes(place(i))) << part;
    }
};

class ExchangeOfCodec : public ExchangeTest, public testing::WithParamInterface<codec::CodecId> {};

// The same contributions, without an aggregator and with one that owns half or all.
TEST_P(ExchangeOfCodec, gives_the_same_bits_whoever_reduces) {
    std::set<Bytes> averages;
    begin(3, GetParam());
    give_parts_to({0, 1, 2});
    start();
    ASSERT_TRUE(trainers_have_all());
    averages.insert(members_[1]->average());
    for (const std::vector<std::size_t>& owners :
         {std::vector<std::size_t>{0, 3, 1, 3}, std::vector<std::size_t>{3}}) {
        forget();
        begin(4, GetParam());
        give_parts_to(owners);
        start();
        ASSERT_TRUE(trainers_have_all());
        expect_everybody_included();
        for (std::size_t i = 0; i < 3; ++i) averages.insert(members_[i]->average());
    }
    EXPECT_EQ(averages.size(), 1u);
    EXPECT_EQ(averages.begin()->size(), codec::encoded_size(GetParam(), part_elements) * 12);
}
// Parts of a sparse codec are longer, and gathered (gathered_test.cpp, tests/sim).
INSTANTIATE_TEST_SUITE_P(Codecs,
                         ExchangeOfCodec,
                         testing::Values(codec::CodecId::fp32,
                                         codec::CodecId::fp16,
                                         codec::CodecId::bf16,
                                         codec::CodecId::blockwise8),
                         [](const auto& codec) {
                             return std::string(codec::to_string(codec.param));
                         });

TEST_F(ExchangeTest, an_aggregator_holds_its_own_averages_and_no_others) {
    begin(4, codec::CodecId::fp32);
    give_parts_to({0, 3, 1});
    start();
    ASSERT_TRUE(trainers_have_all());
    EXPECT_EQ(members_[3]->exchange->finished().size(), 4u);
    for (const auto& [part, header] : members_[3]->exchange->finished())
        EXPECT_EQ(header.owner, place(3));
}

TEST_F(ExchangeTest, an_aggregator_that_dies_costs_a_repair_and_no_contribution) {
    begin(4, codec::CodecId::fp32);
    give_parts_to({0, 3, 1, 2});
    start();
    world_.after(30ms, [this] { nodes_[3]->kill(); });
    ASSERT_TRUE(world_.run_until(
        [&] { return members_[0]->exchange->collected().failed_parts().size() == 3; }, 3s));
    Repair repair;
    repair.number = 1;
    for (const std::uint32_t part : members_[0]->exchange->collected().failed_parts()) {
        repair.parts.push_back(part);
        repair.owners.push_back(place(1));
    }
    for (std::size_t i = 0; i < 3; ++i) members_[i]->exchange->add_repair(repair);
    ASSERT_TRUE(trainers_have_all());
    expect_everybody_included();
    EXPECT_EQ(members_[0]->average(), members_[2]->average());
}

TEST_F(ExchangeTest, what_a_member_without_weight_brings_is_refused_and_in_no_average) {
    begin(3, codec::CodecId::fp32);
    give_parts_to({0});
    const consensus::RoundPlan believed_by_n2 = plan_;
    plan_.members[place(2)].input = {};
    for (std::size_t i = 0; i < 3; ++i) {
        members_.push_back(std::make_unique<ExchangePeer>(*nodes_[i], options_));
        members_[i]->begin(i == 2 ? believed_by_n2 : plan_, inputs_[i]);
    }
    ASSERT_TRUE(world_.run_until(
        [&] { return members_[0]->exchange->complete() && members_[1]->exchange->complete(); },
        10s));
    world_.run_for(1s);
    for (const auto& [part, header] : members_[0]->exchange->finished())
        EXPECT_EQ(header.included, Bytes{static_cast<std::uint8_t>(1 << place(0) | 1 << place(1))});
    ASSERT_EQ(members_[0]->notes.size(), 1u);
    EXPECT_NE(members_[0]->notes[0].find("has no weight in the plan"), std::string::npos)
        << members_[0]->notes[0];
}

// The dead member's contribution does not come a second time.
TEST_F(ExchangeTest, a_repair_does_not_wait_for_a_member_that_died) {
    begin(3, codec::CodecId::fp32);
    give_parts_to({0, 1, 2});
    nodes_[2]->options().upload_bytes_per_s = 20'000;  // some of its contribution has come
    start();
    world_.after(300ms, [this] { nodes_[2]->kill(); });
    ASSERT_TRUE(world_.run_until(
        [&] { return !members_[0]->exchange->collected().failed_parts().empty(); }, 3s));
    world_.run_for(100ms);  // all have seen it
    Repair repair;
    repair.number = 1;
    repair.parts = members_[0]->exchange->collected().failed_parts();
    repair.owners.assign(repair.parts.size(), place(1));
    for (std::size_t i = 0; i < 2; ++i) members_[i]->exchange->add_repair(repair);
    const TimePoint begun = world_.now();
    ASSERT_TRUE(world_.run_until(
        [&] { return members_[0]->exchange->complete() && members_[1]->exchange->complete(); },
        10s));
    EXPECT_LT(world_.now() - begun, 500ms);
    const auto includes_it = [this](const auto& finished) {
        return finished.second.includes(place(2));
    };
    const auto& finished = members_[0]->exchange->finished();
    EXPECT_TRUE(std::any_of(finished.begin(), finished.end(), includes_it));
    EXPECT_FALSE(std::all_of(finished.begin(), finished.end(), includes_it));
    EXPECT_TRUE(members_[0]->exchange->collected().lacking_parts().empty());
}

class ExchangeAfterReveal : public ExchangeTest, public testing::WithParamInterface<bool> {};

// n2 is back only when the others have what n0 reduced; what n3 did not is reduced again.
TEST_P(ExchangeAfterReveal, a_repair_takes_only_who_had_committed) {
    const bool revealed = GetParam();
    begin(4, codec::CodecId::fp32);
    give_parts_to({0, 3});
    nodes_[2]->freeze();
    start();
    world_.after(100ms, [this] { nodes_[3]->kill(); });
    Exchange& leader = *members_[0]->exchange;
    const std::size_t half = plan_.parts.size() / 2;
    ASSERT_TRUE(world_.run_until(
        [&] {
            return leader.finished().size() == half &&
                   members_[1]->exchange->finished().size() == half &&
                   leader.collected().failed_parts().size() == half;
        },
        6s));
    if (revealed)
        for (std::size_t i = 0; i < 2; ++i) members_[i]->exchange->close_to_latecomers();
    nodes_[2]->thaw();
    Repair repair;
    repair.number = 1;
    repair.parts = leader.collected().failed_parts();
    repair.owners.assign(repair.parts.size(), place(1));
    for (std::size_t i = 0; i < 3; ++i) members_[i]->exchange->add_repair(repair);
    ASSERT_TRUE(world_.run_until([&] { return leader.complete(); }, 6s));
    for (const std::uint32_t part : repair.parts) {
        const consensus::FinishedPart& header = leader.finished().at(part);
        EXPECT_TRUE(header.includes(place(0)) && header.includes(place(1)));
        EXPECT_EQ(header.includes(place(2)), !revealed);
    }
}

INSTANTIATE_TEST_SUITE_P(revealed, ExchangeAfterReveal, testing::Bool());

// n2's link is slow: parts of n0 and n1 wait for it at the aggregator.
TEST_F(ExchangeTest, what_waits_for_a_slow_member_is_bounded_and_nobody_is_left_out) {
    nodes_[2]->options().upload_bytes_per_s = 20'000;
    std::vector<std::size_t> most;
    for (const std::size_t bound : {std::size_t{0}, std::size_t{6000}}) {
        begin(4, codec::CodecId::fp32, bound);
        give_parts_to({3});
        start();
        ASSERT_TRUE(trainers_have_all());
        expect_everybody_included();
        most.push_back(members_[3]->memory().most);
        forget();
    }
    constexpr std::size_t part_bytes = part_elements * 4;
    constexpr std::size_t averages = 12 * part_bytes;
    EXPECT_GT(most[0], averages + 6 * part_bytes);
    // The bound, one part a member, and the averages.
    EXPECT_LE(most[1], 6000 + averages + 3 * (part_bytes + around_body_bytes_max));
    EXPECT_LT(most[1], most[0]);
}

// n2 brings four parts a second: more of the others' would only take its share of the link.
TEST_F(ExchangeTest, who_is_far_ahead_of_a_slow_member_is_not_read_from) {
    nodes_[2]->options().upload_bytes_per_s = 8'000;
    begin(4, codec::CodecId::fp32);
    give_parts_to({3});
    start();
    ASSERT_TRUE(trainers_have_all());
    expect_everybody_included();
    constexpr std::size_t part_bytes = part_elements * 4 + around_body_bytes_max;
    EXPECT_LE(members_[3]->memory().most, (12 + 2 * 5) * part_bytes);
}

TEST_F(ExchangeTest, who_is_far_ahead_of_a_silent_member_is_read_from) {
    begin(4, codec::CodecId::fp32);
    give_parts_to({3});
    nodes_[2]->freeze();
    start();
    world_.run_for(3s);  // of the four until nobody is waited for
    EXPECT_GE(members_[3]->memory().now, 2 * 12 * part_elements * 4);
    nodes_[2]->thaw();
    ASSERT_TRUE(trainers_have_all());
}

// n2 sends all the time, and would for a minute; at the deadline the others' parts are there.
TEST_F(ExchangeTest, who_is_too_slow_for_the_deadline_does_not_hold_up_the_others) {
    nodes_[2]->options().upload_bytes_per_s = 2'500;
    begin(4, codec::CodecId::fp32);
    plan_.reduce_ms = 5000;
    for (std::uint64_t at = 0; at < elements; at += part_elements / 2)
        plan_.parts.push_back({at, part_elements / 2, place(3)});
    start();
    ASSERT_TRUE(trainers_have_all());
    for (const auto& [part, header] : members_[0]->exchange->finished())
        EXPECT_TRUE(header.includes(place(0)) && header.includes(place(1))) << part;
    EXPECT_FALSE(members_[0]->exchange->finished().rbegin()->second.includes(place(2)));
}

// n2 says nothing for good: the others' parts go on without it.
TEST_F(ExchangeTest, a_sleeper_does_not_keep_the_others_out_of_bounded_memory) {
    begin(4, codec::CodecId::fp32, 6000);
    give_parts_to({3});
    nodes_[2]->freeze();
    start();
    ASSERT_TRUE(world_.run_until(
        [&] { return members_[0]->exchange->complete() && members_[1]->exchange->complete(); },
        8s));
    for (const auto& [part, header] : members_[0]->exchange->finished()) {
        EXPECT_TRUE(header.includes(place(0)) && header.includes(place(1))) << part;
        EXPECT_FALSE(header.includes(place(2)));
    }
    nodes_[2]->thaw();
}

// Seed 100007707: it was taken for a sleeper, as silent since the round began.
TEST_F(ExchangeTest, a_repair_at_a_full_memory_waits_for_who_sends_there_for_the_first_time) {
    begin(4, codec::CodecId::fp32, /*reduce_bytes_max=*/1);
    give_parts_to({0, 1, 2});
    world_.set_link(*nodes_[2], *nodes_[3], {.latency = 50ms});
    start();
    world_.run_for(2s);
    ASSERT_TRUE(trainers_have_all());
    const Repair repair{.plan = {}, .number = 1, .parts = {5}, .owners = {place(3)}};
    for (auto& member : members_) member->exchange->add_repair(repair);
    const auto& averages = members_[3]->exchange->finished();
    ASSERT_TRUE(world_.run_until([&] { return averages.contains(5); }, 3s));
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(averages.at(5).includes(place(i))) << i;
}

TEST_F(ExchangeTest, a_reducer_gets_all_contributions_of_a_part_at_once) {
    options_.reducer = std::make_shared<MedianReducer>();
    plan_.reducer = options_.reducer->number();
    begin(3, codec::CodecId::fp32);
    give_parts_to({0, 1, 2});
    start();
    ASSERT_TRUE(trainers_have_all());
    expect_everybody_included();
    std::vector<std::vector<float>> means;
    for (std::size_t i = 0; i < 3; ++i) {
        means.push_back(inputs_[i]->sum);
        for (float& value : means.back())
            value /= static_cast<float>(inputs_[i]->input.weight_max());
    }
    std::vector<float> medians(elements);
    for (std::size_t i = 0; i < elements; ++i) medians[i] = MedianReducer::median(means, i);
    const Bytes expected = codec::encode(codec::CodecId::fp32, medians);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(members_[i]->average(), expected) << i;
}

TEST_F(ExchangeTest, a_plan_with_another_reducer_than_the_runs_is_refused) {
    begin(3, codec::CodecId::fp32);
    give_parts_to({0, 1, 2});
    plan_.reducer = 7;
    EXPECT_FALSE(check_plan(plan_, options_));
    options_.reducer = std::make_shared<MedianReducer>();
    EXPECT_TRUE(check_plan(plan_, options_));
    plan_.reducer = mean_number;
    EXPECT_FALSE(check_plan(plan_, options_));
}

// Claims that an owner, a leader and a holder of a part may make.
TEST_F(ExchangeTest, an_average_fits_its_plan_if_one_signed_it_who_may_own_the_part) {
    begin(4, codec::CodecId::fp32);
    give_parts_to({1, 2});
    plan_.standby = {place(1)};
    const Digest digest = consensus::decision_digest(wire::encode(plan_));
    consensus::FinishedPart part;
    part.plan = digest;
    part.part = 1;
    part.owner = place(2);
    part.included = {0b1111};
    EXPECT_TRUE(consensus::fits_plan(part, plan_, digest));
    const auto fits = [&](std::size_t owner, std::uint32_t repair) {
        consensus::FinishedPart changed = part;
        changed.owner = place(owner);
        changed.repair = repair;
        return consensus::fits_plan(changed, plan_, digest);
    };
    EXPECT_FALSE(fits(0, 0));
    EXPECT_FALSE(fits(1, 0));
    EXPECT_TRUE(fits(0, 1)) << "the leader";
    EXPECT_TRUE(fits(1, consensus::repairs_max)) << "a standby owner";
    EXPECT_FALSE(fits(1, consensus::repairs_max + 1));
    EXPECT_FALSE(fits(2, 1));
    const auto refused = [&](auto change) {
        consensus::FinishedPart changed = part;
        change(changed);
        EXPECT_FALSE(consensus::fits_plan(changed, plan_, digest));
    };
    refused([](consensus::FinishedPart& changed) { changed.plan.bytes[0] ^= 1; });
    refused([](consensus::FinishedPart& changed) { changed.part = 12; });
    refused([](consensus::FinishedPart& changed) { changed.owner = 4; });
    refused([](consensus::FinishedPart& changed) { changed.included = {0b11111}; });
    refused([](consensus::FinishedPart& changed) { changed.included = {0b1111, 0}; });
    refused([](consensus::FinishedPart& changed) { changed.included.clear(); });
}

// A vector of 6,000 whose elements from 1,000 to 2,000 are a small tensor's.
class ExchangeOfTensors : public ExchangeTest {
  protected:
    static constexpr auto coarse = codec::CodecId::blockwise8;
    static constexpr auto fine = codec::CodecId::fp16;

    void begin_adaptive(std::size_t count, const std::vector<std::size_t>& owners) {
        options_.other_codecs = {fine};
        options_.codec_ranges = {{0, 1000, coarse}, {1000, 1000, fine}, {2000, 4000, coarse}};
        begin(count, coarse);
        for (std::uint64_t at = 0; at < elements; at += part_elements)
            plan_.parts.push_back(
                {at, part_elements, place(owners[plan_.parts.size() % owners.size()])});
        say(2, fine);
        say(3, fine);
        EXPECT_TRUE(check_plan(plan_, options_));
    }
    void say(std::size_t part, codec::CodecId codec) {
        plan_.parts[part].codec = static_cast<std::uint32_t>(codec);
    }
    TransferOptions options_of_aggregator() const {
        TransferOptions options = options_;
        options.codec_ranges.clear();
        return options;
    }
};

TEST_F(ExchangeOfTensors, gives_the_same_bits_whoever_reduces_in_the_codec_of_each_part) {
    std::set<Bytes> averages;
    for (const std::vector<std::size_t>& owners : {std::vector<std::size_t>{0, 1, 2},
                                                   std::vector<std::size_t>{0, 3, 1},
                                                   std::vector<std::size_t>{3}}) {
        begin_adaptive(4, owners);
        start();
        ASSERT_TRUE(trainers_have_all());
        expect_everybody_included();
        for (std::size_t i = 0; i < 3; ++i) averages.insert(members_[i]->average());
        forget();
    }
    EXPECT_EQ(averages.size(), 1u);
    EXPECT_EQ(averages.begin()->size(),
              codec::encoded_size(coarse, part_elements) * 10 +
                  codec::encoded_size(fine, part_elements) * 2);
}

TEST_F(ExchangeOfTensors, plans_with_another_codec_for_a_tensor_are_refused) {
    begin_adaptive(3, {0, 1, 2});
    say(3, coarse);
    EXPECT_FALSE(check_plan(plan_, options_));
    say(3, fine);
    say(0, fine);
    EXPECT_FALSE(check_plan(plan_, options_));
    plan_.parts[0].codec.reset();
    EXPECT_TRUE(check_plan(plan_, options_));
    plan_.codec = static_cast<std::uint32_t>(fine);
    EXPECT_FALSE(check_plan(plan_, options_));
}

TEST_F(ExchangeOfTensors, plans_with_a_part_across_the_border_of_a_tensor_are_refused) {
    begin_adaptive(3, {0, 1, 2});
    options_.part_elements_max = part_elements + 100;
    plan_.parts[1].count += 100;
    plan_.parts[2].offset += 100;
    plan_.parts[2].count -= 100;
    EXPECT_FALSE(check_plan(plan_, options_));
    EXPECT_TRUE(check_plan(plan_, options_of_aggregator())) << "who does not know the tensors";
}

TEST_F(ExchangeOfTensors, an_aggregator_takes_the_codecs_of_the_run_and_no_other) {
    begin_adaptive(4, {3});
    for (std::uint32_t number = 0; number < 1000; ++number) {
        plan_.parts[7].codec = number;
        const bool known = number == static_cast<std::uint32_t>(coarse) ||
                           number == static_cast<std::uint32_t>(fine);
        EXPECT_EQ(bool(check_plan(plan_, options_of_aggregator())), known) << number;
        EXPECT_EQ(bool(check_plan(plan_, options_)), number == static_cast<std::uint32_t>(coarse));
    }
    plan_.parts[7].codec = 0xffff'ffff;
    EXPECT_FALSE(check_plan(plan_, options_of_aggregator()));
}

TEST_F(ExchangeTest, who_brings_what_its_codec_cuts_off_is_told_once) {
    for (const codec::CodecId codec : {codec::CodecId::fp16, codec::CodecId::bf16}) {
        begin(3, codec);
        auto large = std::make_shared<RoundInput>(*inputs_[0]);
        for (std::size_t at = 0; at < large->sum.size(); at += part_elements) large->sum[at] = 1e9f;
        inputs_[0] = large;
        give_parts_to({1, 2});
        start();
        ASSERT_TRUE(trainers_have_all());
        const bool is_cut = codec == codec::CodecId::fp16;
        ASSERT_EQ(members_[0]->notes.size(), is_cut ? 1u : 0u);
        for (const std::string& note : members_[0]->notes)
            EXPECT_NE(note.find("beyond the range of fp16"), std::string::npos) << note;
        EXPECT_TRUE(members_[1]->notes.empty());
        forget();
    }
}

// A running variance of 1e8 is no gradient that explodes.
TEST_F(ExchangeTest, changes_of_buffers_may_be_longer_than_gradients) {
    constexpr std::uint64_t gradients = 4 * part_elements;
    begin(3, codec::CodecId::fp32);
    options_.norm_max = 1e-6;
    options_.bounded_count = gradients;
    EXPECT_FALSE(check_plan(plan_, options_)) << "the plan says otherwise";
    plan_.bounded_count = gradients;
    give_parts_to({0, 1, 2});
    start();
    ASSERT_TRUE(trainers_have_all());
    for (const auto& [part, header] : members_[0]->exchange->finished())
        EXPECT_EQ(header.includes(place(1)), plan_.parts[part].offset >= gradients) << part;
}

TEST_F(ExchangeOfTensors, plans_of_a_run_with_one_codec_have_no_part_in_another) {
    begin(3, codec::CodecId::fp16);
    give_parts_to({0, 1, 2});
    say(3, coarse);
    EXPECT_FALSE(check_plan(plan_, options_));
}

// A plan of one codec is, byte for byte, what it was before parts could have their own.
TEST_F(ExchangeOfTensors, a_part_in_the_codec_of_its_plan_says_nothing_of_it) {
    begin_adaptive(3, {0, 1, 2});
    const Bytes plain = wire::encode(plan_.parts[0]);
    plan_.parts[0].codec = 0;  // fp32 is said as well
    EXPECT_EQ(wire::encode(plan_.parts[0]).size(), plain.size() + 2);
    EXPECT_EQ(wire::decode<consensus::PlanPart>(wire::encode(plan_.parts[0]))->codec, 0u);
}

TEST_F(ExchangeTest, plans_with_parts_that_no_message_holds_are_refused) {
    begin(3, codec::CodecId::fp32);
    options_.part_elements_max = 1u << 30;
    options_.vector_count = part_bytes_max / 4;
    plan_.parts = {{0, options_.vector_count, place(0)}};
    EXPECT_TRUE(check_plan(plan_, options_));
    ++options_.vector_count;
    ++plan_.parts[0].count;
    EXPECT_FALSE(check_plan(plan_, options_));
    // 8 bit: four times as many.
    options_.codec = codec::CodecId::blockwise8;
    plan_.codec = static_cast<std::uint32_t>(options_.codec);
    plan_.parts[0].count = options_.vector_count = 1u << 20;
    EXPECT_TRUE(check_plan(plan_, options_));
}

TEST_F(ExchangeTest, plans_in_which_an_aggregator_contributes_or_leads_are_refused) {
    begin(4, codec::CodecId::fp32);
    give_parts_to({3});
    consensus::RoundPlan leads = plan_;
    leads.leader = nodes_[3]->id();
    EXPECT_FALSE(check_plan(leads, options_));
    consensus::RoundPlan contributes = plan_;
    contributes.members[place(3)].input.fresh = {0, 5, 0};
    EXPECT_FALSE(check_plan(contributes, options_));
}

}  // namespace
}  // namespace dedloc::allreduce
