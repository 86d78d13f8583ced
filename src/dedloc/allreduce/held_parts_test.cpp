// A leader that lacks averages asks simulated members that hold some of them.

#include "dedloc/allreduce/held_parts.h"

#include <gtest/gtest.h>

#include "dedloc/allreduce/allreduce_testing.h"
#include "dedloc/security/hash_list.h"

namespace dedloc::allreduce {
namespace {

constexpr std::uint64_t held_part_elements = 500;
constexpr std::uint32_t held_parts = 12;

class Holder final : public AnsweringPeer {
  public:
    Holder(sim::SimNode& node, TransferOptions options)
        : AnsweringPeer(node, options), signer_(node.signer()), exchanges_(environment_, 4) {}
    struct Reduced {
        consensus::FinishedPart header;
        SharedBytes encoded;
    };
    // An average that this member, place `owner` of the plan, reduced: each byte is this one.
    Reduced reduced(const Exchange& exchange,
                    std::uint32_t owner,
                    std::uint32_t part,
                    std::uint8_t byte,
                    Bytes included) const {
        SharedBytes encoded(
            Bytes(codec::encoded_size(codec::CodecId::fp32, held_part_elements), byte));
        consensus::FinishedPart header;
        header.plan = exchange.digest();
        header.part = part;
        header.owner = owner;
        header.included = std::move(included);
        header.digest = security::hash_list(*encoded);
        header.signature = signer_.sign(consensus::part_domain, header.signed_bytes());
        return {std::move(header), std::move(encoded)};
    }
    void hold(const Exchange& exchange, std::uint32_t owner, std::uint32_t part) {
        put(reduced(exchange, owner, part, static_cast<std::uint8_t>(part), {1}));
    }
    void put(Reduced part) { parts_.put(std::move(part.header), std::move(part.encoded)); }
    std::shared_ptr<Exchange> begin(const consensus::RoundPlan& plan) {
        return exchanges_.begin(plan, Digest{}, nullptr);
    }
    Task<void> stop() {
        co_await handlers_.stop();
        co_await exchanges_.stop();
    }

  private:
    const security::ToySigner& signer_;
    Exchanges exchanges_;
};

// n0 leads and has nothing; n1 owns all parts; n2 and n3 are members as well.
class HeldPartsTest : public testing::Test {
  protected:
    HeldPartsTest() : world_(11) {
        options_.vector_count = held_parts * held_part_elements;
        options_.part_elements_max = held_part_elements;
        for (int i = 0; i < 4; ++i) {
            nodes_.push_back(&world_.add_node());
            peers_.push_back(std::make_unique<Holder>(*nodes_.back(), options_));
            consensus::PlanMember member;
            member.peer = nodes_.back()->id();
            plan_.members.push_back(member);
        }
        plan_.leader = nodes_[0]->id();
        plan_.codec = static_cast<std::uint32_t>(codec::CodecId::fp32);
        plan_.reduce_ms = 4000;
        plan_.round_ms = 8000;
        std::ranges::sort(plan_.members, {}, &consensus::PlanMember::peer);
        for (std::uint32_t part = 0; part < held_parts; ++part)
            plan_.parts.push_back({part * held_part_elements, held_part_elements, owner()});
        exchange_ = peers_[0]->begin(plan_);
    }
    ~HeldPartsTest() override {
        for (auto& peer : peers_) world_.run_task(peer->stop());
        for (sim::SimNode* node : nodes_) world_.run_task(node->host().stop());
    }
    std::uint32_t owner() const { return place_of(plan_, nodes_[1]->id()); }
    // n2 is asked for one, and the others come from n3.
    void expect_refused_and_asked_of_another() {
        for (std::uint32_t part = 0; part < held_parts; ++part) hold(3, part);
        collect_all({2, 3});
        EXPECT_TRUE(exchange_->complete());
        for (const auto& [part, header] : exchange_->finished())
            EXPECT_EQ(header.owner, owner()) << part;
        EXPECT_EQ(peers_[2]->asked.size(), 1u);
        const auto says_so = [](const std::string& note) {
            return note.find("not what its owner signed") != std::string::npos;
        };
        EXPECT_EQ(std::ranges::count_if(peers_[0]->notes, says_so), 1);
    }
    // Holds what the owner signed at another member.
    void hold(std::size_t member, std::uint32_t part) {
        peers_[1]->hold(*exchange_, owner(), part);
        if (member == 1) return;
        const auto header = peers_[1]->parts().header(exchange_->digest(), part);
        ASSERT_TRUE(header);
        peers_[member]->parts().put(*header, peers_[1]->parts().find(header->digest));
    }
    // Holds what the owner signed at n2 alone.
    void hold_at_2(std::uint32_t part, std::uint8_t byte, Bytes included) {
        peers_[2]->put(peers_[1]->reduced(*exchange_, owner(), part, byte, std::move(included)));
    }
    Task<void> collect(std::vector<PeerId> members, std::vector<std::uint32_t> parts) {
        co_await collect_held_parts(
            peers_[0]->environment(), exchange_, std::move(members), std::move(parts));
        done_ = true;
    }
    // Virtual seconds that it took.
    double collect_all(const std::vector<std::size_t>& members) {
        std::vector<PeerId> ids;
        for (const std::size_t member : members) ids.push_back(nodes_[member]->id());
        std::vector<std::uint32_t> parts;
        for (std::uint32_t part = 0; part < held_parts; ++part) parts.push_back(part);
        const TimePoint begun = world_.now();
        world_.run_task(collect(std::move(ids), std::move(parts)));
        EXPECT_TRUE(done_);
        return to_seconds(world_.now() - begun);
    }
    std::size_t questions() const {
        std::size_t count = 0;
        for (const auto& peer : peers_) count += peer->asked.size();
        return count;
    }

    sim::World world_;
    TransferOptions options_;
    std::vector<sim::SimNode*> nodes_;
    std::vector<std::unique_ptr<Holder>> peers_;
    consensus::RoundPlan plan_;
    std::shared_ptr<Exchange> exchange_;
    bool done_ = false;
};

TEST_F(HeldPartsTest, asks_for_every_part_once_and_spreads_the_questions) {
    for (std::uint32_t part = 0; part < held_parts; ++part)
        for (const std::size_t member : {2u, 3u}) hold(member, part);
    collect_all({1, 2, 3});
    EXPECT_TRUE(exchange_->complete());
    EXPECT_EQ(questions(), held_parts);
    for (const std::size_t member : {1u, 2u, 3u})
        EXPECT_GE(peers_[member]->asked.size(), held_parts / 6) << member;
}

TEST_F(HeldPartsTest, asks_the_next_one_for_what_a_member_lacks) {
    for (std::uint32_t part = 0; part < held_parts; ++part) hold(part % 2 == 0 ? 2 : 3, part);
    collect_all({2, 3});
    EXPECT_TRUE(exchange_->complete());
    for (const std::size_t member : {2u, 3u}) {
        const auto& asked = peers_[member]->asked;
        EXPECT_EQ(std::set<std::uint32_t>(asked.begin(), asked.end()).size(), asked.size());
    }
}

TEST_F(HeldPartsTest, ends_with_what_there_is_when_nobody_has_the_rest) {
    hold(2, 5);
    EXPECT_LT(collect_all({2, 3}), 5.0);
    EXPECT_FALSE(exchange_->complete());
    EXPECT_EQ(exchange_->finished().size(), 1u);
    EXPECT_GE(questions(), 2 * held_parts - 1);  // of the part that came perhaps only one
    EXPECT_LE(questions(), 2 * held_parts);
}

TEST_F(HeldPartsTest, a_member_that_does_not_answer_costs_its_timeout_and_no_part) {
    for (std::uint32_t part = 0; part < held_parts; ++part) hold(3, part);
    peers_[2]->silent = true;
    const double seconds = collect_all({2, 3});
    EXPECT_TRUE(exchange_->complete());
    EXPECT_LT(seconds, to_seconds(peers_[0]->timeouts().answer()));
    EXPECT_EQ(peers_[2]->asked.size(), 1u);
}

// Twelve questions would take seven seconds of a round of eight.
TEST_F(HeldPartsTest, leaves_time_to_reduce_what_nobody_has) {
    peers_[0]->timeouts() = links::Timeouts(4s, 120s);
    nodes_[2]->set_weather(0, 300ms);
    EXPECT_LT(collect_all({2}), 3.1);
    EXPECT_GE(peers_[2]->asked.size(), 1u);
    EXPECT_LT(peers_[2]->asked.size(), held_parts);
}

TEST_F(HeldPartsTest, an_average_that_its_owner_did_not_sign_is_refused_and_asked_of_another) {
    for (std::uint32_t part = 0; part < held_parts; ++part)
        peers_[2]->hold(*exchange_, owner(), part);  // signed by n2, in n1's name
    expect_refused_and_asked_of_another();
}

TEST_F(HeldPartsTest, an_average_of_one_who_does_not_own_the_part_is_refused) {
    for (std::uint32_t part = 0; part < held_parts; ++part)
        peers_[2]->hold(*exchange_, place_of(plan_, nodes_[2]->id()), part);
    expect_refused_and_asked_of_another();
}

TEST_F(HeldPartsTest, an_average_that_includes_more_than_the_members_is_refused) {
    for (std::uint32_t part = 0; part < held_parts; ++part) hold_at_2(part, 7, {0xff});
    expect_refused_and_asked_of_another();
}

TEST_F(HeldPartsTest, an_average_that_is_not_a_number_is_refused_though_its_owner_signed_it) {
    for (std::uint32_t part = 0; part < held_parts; ++part) hold_at_2(part, 0xff, {1});
    expect_refused_and_asked_of_another();
}

}  // namespace
}  // namespace dedloc::allreduce
