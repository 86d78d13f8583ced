// The data of a plan with a grid: groups, collectors and owners, among simulated peers.

#include <algorithm>
#include <deque>
#include <gtest/gtest.h>
#include <limits>

#include "dedloc/allreduce/allreduce_testing.h"
#include "dedloc/allreduce/plan_check.h"
#include "dedloc/codec/codec.h"
#include "dedloc/wire/message.h"

namespace dedloc::allreduce {
namespace {

constexpr std::uint64_t grid_elements = 4800;
constexpr std::uint64_t grid_part = 400;
constexpr std::size_t peers_count = 8;
constexpr std::size_t groups_count = 3;
constexpr std::size_t columns_count = 2;

// n0 to n7 in groups n0 n3 n6, n1 n4 n7 and n2 n5. Columns are n0 n1 n2 and n3 n4 n5; n6 and n7 own
// nothing. n6 brings nothing.
class GridExchange : public ExchangeGroup {
  protected:
    GridExchange() : ExchangeGroup(11) {
        for (std::size_t i = 0; i < peers_count; ++i) nodes_.push_back(&world_.add_node());
        options_.vector_count = grid_elements;
        options_.part_elements_max = grid_part;
    }

    void make_plan(codec::CodecId codec) {
        options_.codec = codec;
        plan_ = consensus::RoundPlan{};
        plan_.codec = static_cast<std::uint32_t>(codec);
        plan_.reduce_ms = 4000;
        plan_.round_ms = 8000;
        inputs_.clear();
        for (std::size_t i = 0; i < peers_count; ++i)
            add_member(i == 6 ? std::make_shared<RoundInput>()
                              : make_contribution(i, 10 + i * 3, grid_elements));
        order_members();
        for (std::size_t i = 0; i < columns_count * groups_count; ++i)
            plan_.standby.push_back(place(i));
        plan_.groups = groups_count;
        plan_.group_of.resize(peers_count);
        for (std::size_t i = 0; i < peers_count; ++i)
            plan_.group_of[place(i)] = static_cast<std::uint32_t>(i % groups_count);
        for (std::size_t i = 0; i < columns_count * groups_count; ++i)
            plan_.collectors.push_back(place(i));
        for (std::uint64_t at = 0; at < grid_elements; at += grid_part)
            plan_.parts.push_back(
                {at, grid_part, place(at / grid_part % (columns_count * groups_count))});
        EXPECT_TRUE(check_plan(plan_, options_));
    }
    void start(const std::set<std::size_t>& absent = {}) {
        for (std::size_t i = 0; i < peers_count; ++i) {
            if (absent.contains(i)) continue;
            members_.push_back(std::make_unique<ExchangePeer>(*nodes_[i], options_));
            members_.back()->begin(plan_, inputs_[i]);
        }
    }
    bool all_have_all(Duration within = 10s) {
        return world_.run_until(
            [&] {
                return std::ranges::all_of(
                    members_, [](const auto& member) { return member->exchange->complete(); });
            },
            within);
    }
    bool everywhere(std::size_t node) const {
        const auto& finished = members_[0]->exchange->finished();
        return std::ranges::all_of(finished, [&](const auto& entry) {
            return entry.second.includes(place(node)) != inputs_[node]->input.is_empty();
        });
    }
    std::vector<double> expected_average() const {
        std::vector<double> sum(grid_elements, 0.0);
        double weight = 0;
        for (const auto& input : inputs_) {
            weight += static_cast<double>(input->input.weight_max());
            for (std::size_t k = 0; k < input->sum.size(); ++k) sum[k] += input->sum[k];
        }
        for (double& value : sum) value /= weight;
        return sum;
    }
    bool was_told(const std::string& piece) const {
        return std::ranges::any_of(members_, [&](const auto& member) {
            return std::ranges::any_of(member->notes, [&](const std::string& note) {
                return note.find(piece) != std::string::npos;
            });
        });
    }
    // As the member n`from`: these parts to n`to`, and nothing more.
    void send(std::size_t from, std::size_t to, std::vector<PartData> parts) {
        world_.run_task(send_parts(from, to, std::move(parts)));
        world_.run_for(100ms);
    }
    Task<void> send_parts(std::size_t from, std::size_t to, std::vector<PartData> parts) {
        auto opened = co_await nodes_[from]->host().open_stream(
            nodes_[to]->id(), parts_method, world_.now() + Duration(1s));
        EXPECT_TRUE(opened.has_value());
        PartsHeader header{Digest{}, 0};
        Bytes bytes = wire::encode(header);
        EXPECT_TRUE((co_await (*opened)->write(std::move(bytes))).has_value());
        for (const PartData& part : parts) {
            Bytes message = wire::encode(part);
            (void)co_await (*opened)->write(std::move(message));
        }
        (void)co_await (*opened)->finish();
    }
    // Says that there is this member in it.
    PartData sum(std::uint32_t part, std::size_t member, std::span<const float> of) {
        PartData data;
        data.part = part;
        data.included = consensus::no_members(plan_);
        base::set_bit(data.included, place(member));
        data.encoded = sent_.emplace_back(codec::encode(codec::CodecId::fp32, of));
        return data;
    }
    // The parts that a node owns.
    std::vector<std::uint32_t> parts_of(std::size_t node) const {
        std::vector<std::uint32_t> parts;
        for (std::uint32_t part = 0; part < plan_.parts.size(); ++part)
            if (plan_.parts[part].owner == place(node)) parts.push_back(part);
        return parts;
    }

    std::deque<Bytes> sent_;
};

TEST_F(GridExchange, is_the_mean_of_all_samples_and_everybody_has_the_same_bytes) {
    make_plan(codec::CodecId::fp32);
    start();
    ASSERT_TRUE(all_have_all());
    for (std::size_t i = 0; i < peers_count; ++i) EXPECT_TRUE(everywhere(i)) << i;
    for (const auto& member : members_) EXPECT_EQ(member->average(), members_.front()->average());
    std::vector<float> average(grid_elements);
    ASSERT_TRUE(codec::decode(codec::CodecId::fp32, members_.front()->average(), average));
    const std::vector<double> expected = expected_average();
    for (std::size_t k = 0; k < grid_elements; ++k) EXPECT_NEAR(average[k], expected[k], 1e-5);
}

TEST_F(GridExchange, the_order_of_arrival_changes_no_bit) {
    std::set<Bytes> averages;
    for (const std::size_t slow : {1u, 4u, 7u}) {
        make_plan(codec::CodecId::fp16);
        for (sim::SimNode* node : nodes_) node->options().upload_bytes_per_s = 1e6;
        nodes_[slow]->options().upload_bytes_per_s = 3e4;
        start();
        ASSERT_TRUE(all_have_all());
        for (std::size_t i = 0; i < peers_count; ++i) EXPECT_TRUE(everywhere(i)) << i;
        averages.insert(members_.front()->average());
        stop_members();
    }
    EXPECT_EQ(averages.size(), 1u);
}

TEST_F(GridExchange, averages_each_part_in_its_own_codec) {
    make_plan(codec::CodecId::blockwise8);
    for (const std::size_t part : {3u, 4u})
        plan_.parts[part].codec = static_cast<std::uint32_t>(codec::CodecId::fp16);
    start();
    ASSERT_TRUE(all_have_all());
    for (const auto& member : members_) EXPECT_EQ(member->average(), members_.front()->average());
    const Bytes all = members_.front()->average();
    const std::size_t eighth = codec::encoded_size(codec::CodecId::blockwise8, grid_part);
    ASSERT_EQ(all.size(), 10 * eighth + 2 * grid_part * 2);
    std::vector<float> average(2 * grid_part);
    ASSERT_TRUE(codec::decode(
        codec::CodecId::fp16, ByteView(all).subspan(3 * eighth, 2 * grid_part * 2), average));
    const std::vector<double> expected = expected_average();
    for (std::size_t k = 0; k < average.size(); ++k)
        EXPECT_NEAR(average[k], expected[3 * grid_part + k], 1e-3);
}

TEST_F(GridExchange, a_member_speaks_with_its_group_and_its_column_only) {
    make_plan(codec::CodecId::fp32);
    start();
    ASSERT_TRUE(all_have_all());
    // n7 owns nothing: it needs n1 and n4 of its group, and nobody else.
    for (std::size_t i = 0; i < 7; ++i)
        EXPECT_EQ(nodes_[7]->host().is_connected(nodes_[i]->id()), i == 1 || i == 4) << i;
}

// n4 collects for its group, and owns.
TEST_F(GridExchange, is_refused_for_a_reducer_whose_sums_do_not_add_up) {
    make_plan(codec::CodecId::fp32);
    options_.reducer = std::make_shared<MedianReducer>();
    plan_.reducer = options_.reducer->number();
    const Ok sound = check_plan(plan_, options_);
    ASSERT_FALSE(sound);
    EXPECT_NE(sound.error().message().find("does not add up"), std::string::npos);
}

TEST_F(GridExchange, a_collector_that_dies_costs_a_repair_and_only_its_own_contribution) {
    make_plan(codec::CodecId::fp32);
    start();
    nodes_[4]->options().upload_bytes_per_s = 5e3;
    world_.after(250ms, [this] { nodes_[4]->kill(); });
    Exchange& leader = *members_[0]->exchange;
    ASSERT_TRUE(world_.run_until(
        [&] { return leader.collected().failed_parts().size() + leader.finished().size() == 12; },
        3s));
    EXPECT_EQ(leader.collected().failed_parts(), parts_of(4));
    std::set<std::uint32_t> parts;
    for (const std::uint32_t part : leader.collected().failed_parts()) parts.insert(part);
    for (const std::uint32_t part : leader.collected().lacking_parts()) parts.insert(part);
    Repair repair;
    repair.number = 1;
    for (const std::uint32_t part : parts) {
        repair.parts.push_back(part);
        repair.owners.push_back(place(3));
    }
    for (std::size_t i = 0; i < peers_count; ++i)
        if (i != 4) members_[i]->exchange->add_repair(repair);
    ASSERT_TRUE(world_.run_until(
        [&] { return leader.complete() && leader.collected().lacking_parts().empty(); }, 8s));
    for (std::size_t i = 0; i < peers_count; ++i) EXPECT_TRUE(i == 4 || everywhere(i)) << i;
}

TEST_F(GridExchange, what_is_not_finite_is_refused_in_its_group_and_the_others_stay) {
    make_plan(codec::CodecId::fp32);
    auto bad = std::make_shared<RoundInput>(*inputs_[7]);
    bad->sum[grid_part * 4 + 5] = std::numeric_limits<float>::infinity();
    inputs_[7] = bad;
    start();
    ASSERT_TRUE(all_have_all());
    EXPECT_TRUE(was_told("numbers that are not finite"));
    EXPECT_EQ(members_[4]->notes.size(), 1u) << "its group's collector of part 4";
    for (const auto& [part, header] : members_[0]->exchange->finished())
        EXPECT_EQ(header.includes(place(7)), part != 4) << part;
    EXPECT_TRUE(everywhere(1));
}

// n4 is not there; somebody in its place sends sums to n3, who owns parts of the same column.
TEST_F(GridExchange, sums_with_others_groups_or_of_the_wrong_length_are_refused) {
    make_plan(codec::CodecId::fp32);
    start({4});
    const std::vector<float> values(grid_part, 1.0f);
    const std::uint32_t part = parts_of(3).front();
    send(4, 3, {sum(part, 2, values)});
    EXPECT_TRUE(was_told("somebody in it who is not of its group"));
    send(4, 3, {sum(part, 1, std::span(values).first(7))});
    EXPECT_TRUE(was_told("has the wrong length"));
    ASSERT_TRUE(
        world_.run_until([&] { return members_[3]->exchange->finished().contains(part); }, 8s));
    for (const std::size_t member : {1u, 4u, 7u})
        EXPECT_FALSE(members_[3]->exchange->finished().at(part).includes(place(member)));
    EXPECT_TRUE(members_[3]->exchange->finished().at(part).includes(place(0)));
}

TEST_F(GridExchange, a_sum_that_is_not_finite_leaves_out_its_group_and_blames_who_sent_it) {
    make_plan(codec::CodecId::fp32);
    start({4});
    std::vector<float> values(grid_part, 1.0f);
    values[7] = std::numeric_limits<float>::quiet_NaN();
    const std::uint32_t part = parts_of(3).front();
    send(4, 3, {sum(part, 1, values)});
    ASSERT_TRUE(
        world_.run_until([&] { return members_[3]->exchange->finished().contains(part); }, 8s));
    EXPECT_TRUE(was_told("numbers that are not finite"));
    EXPECT_FALSE(members_[3]->exchange->finished().at(part).includes(place(1)));
    EXPECT_TRUE(members_[3]->exchange->finished().at(part).includes(place(0)));
    EXPECT_TRUE(members_[3]->exchange->finished().at(part).includes(place(5)));
}

TEST_F(GridExchange, plans_whose_groups_or_columns_do_not_fit_are_refused) {
    make_plan(codec::CodecId::fp32);
    const auto refused = [&](auto change) {
        consensus::RoundPlan plan = plan_;
        change(plan);
        return !check_plan(plan, options_);
    };
    EXPECT_TRUE(refused([](consensus::RoundPlan& plan) { plan.group_of.pop_back(); }));
    EXPECT_TRUE(refused([](consensus::RoundPlan& plan) { plan.group_of.back() = groups_count; }));
    EXPECT_TRUE(refused([](consensus::RoundPlan& plan) { plan.collectors.pop_back(); }));
    EXPECT_TRUE(refused([](consensus::RoundPlan& plan) { plan.collectors[1] = 99; }));
    EXPECT_TRUE(
        refused([](consensus::RoundPlan& plan) { plan.collectors[3] = plan.collectors[0]; }));
    EXPECT_TRUE(refused(
        [](consensus::RoundPlan& plan) { std::swap(plan.collectors[0], plan.collectors[1]); }));
    EXPECT_TRUE(refused([](consensus::RoundPlan& plan) { plan.groups = 0; }));
    EXPECT_TRUE(refused([](consensus::RoundPlan& plan) {
        plan.groups = 4'000'000'000;
        plan.collectors.clear();
        plan.parts.clear();
    }));
    EXPECT_TRUE(refused([](consensus::RoundPlan& plan) { plan.groups = peers_count + 1; }));
    EXPECT_TRUE(refused([](consensus::RoundPlan& plan) { plan.collectors.clear(); }));
    EXPECT_TRUE(refused([this](consensus::RoundPlan& plan) { plan.parts[0].owner = place(7); }));
    EXPECT_FALSE(refused([](consensus::RoundPlan&) {}));
}

}  // namespace
}  // namespace dedloc::allreduce
