// A peer that slept through a commit fetches its averages from simulated members.

#include "dedloc/allreduce/fetch.h"

#include <gtest/gtest.h>

#include "dedloc/allreduce/allreduce_testing.h"
#include "dedloc/security/hash_list.h"

namespace dedloc::allreduce {
namespace {

constexpr std::uint64_t fetched_part_elements = 500;
constexpr std::uint32_t fetched_parts = 48;

// n0 has nothing; n1, n2 and n3 have everything, and each has reduced a third of it.
class FetchTest : public testing::Test {
  protected:
    FetchTest() : world_(12) {
        options_.vector_count = fetched_parts * fetched_part_elements;
        for (int i = 0; i < 4; ++i) {
            nodes_.push_back(&world_.add_node());
            peers_.push_back(std::make_unique<AnsweringPeer>(*nodes_.back(), options_));
            members_.push_back(nodes_.back()->id());
            // The first calls open connections.
            peers_.back()->timeouts() = links::Timeouts(2s, options_.deadline_max);
        }
        for (std::size_t i = 1; i < nodes_.size(); ++i)
            world_.set_link(*nodes_[0], *nodes_[i], sim::LinkOptions{.latency = 100ms});
        make_step(0);
    }
    ~FetchTest() override {
        for (auto& peer : peers_) world_.run_task(peer->stop());
        for (sim::SimNode* node : nodes_) world_.run_task(node->host().stop());
    }
    void make_step(std::uint32_t step) {
        wanted_.clear();
        for (std::uint32_t part = 0; part < fetched_parts; ++part) {
            Bytes bytes(codec::encoded_size(codec::CodecId::fp32, fetched_part_elements));
            bytes[0] = static_cast<std::uint8_t>(part);
            bytes[1] = static_cast<std::uint8_t>(step);
            const SharedBytes encoded(std::move(bytes));
            consensus::FinishedPart header;
            header.plan.bytes[0] = static_cast<std::uint8_t>(step);
            header.part = part;
            header.owner = 1 + part % 3;
            header.digest = security::hash_list(*encoded);
            for (std::size_t i = 1; i < peers_.size(); ++i) peers_[i]->parts().put(header, encoded);
            wanted_.push_back(header);
        }
    }
    Task<void> fetch() {
        const TimePoint deadline = world_.now() + 20s;
        PartSources sources{members_, {members_.begin() + 1, members_.end()}, fellows_};
        auto fetched = co_await peers_[0]->fetcher.fetch(wanted_, std::move(sources), deadline);
        EXPECT_TRUE(fetched) << fetched.error().message();
    }
    // Virtual seconds that it took.
    double fetch_all() {
        const TimePoint begun = world_.now();
        world_.run_task(fetch());
        for (const consensus::FinishedPart& part : wanted_)
            EXPECT_TRUE(peers_[0]->parts().find(part.digest)) << part.part;
        return to_seconds(world_.now() - begun);
    }

    sim::World world_;
    TransferOptions options_;
    std::vector<sim::SimNode*> nodes_;
    std::vector<std::unique_ptr<AnsweringPeer>> peers_;
    std::vector<PeerId> members_;
    std::vector<PeerId> fellows_;
    std::vector<consensus::FinishedPart> wanted_;
};

TEST_F(FetchTest, asks_who_reduced_it) {
    fetch_all();
    for (std::size_t i = 1; i < peers_.size(); ++i)
        EXPECT_EQ(peers_[i]->asked.size(), fetched_parts / 3) << i;
}

TEST_F(FetchTest, asks_another_where_who_reduced_it_does_not_answer) {
    nodes_[1]->kill();
    fetch_all();
    EXPECT_EQ(peers_[1]->asked.size(), 0u);
    EXPECT_EQ(peers_[2]->asked.size() + peers_[3]->asked.size(), fetched_parts);
}

// Each round trip is 0.2 s: with four parts at a time at first they are four, later two.
TEST_F(FetchTest, remembers_how_many_at_once_a_line_bears) {
    const double first = fetch_all();
    make_step(1);
    const double second = fetch_all();
    EXPECT_LT(second, 0.6 * first);
    EXPECT_LT(second, 0.5);
}

// One made the average alone; two more are fetching it, and have what they began with.
class FetchFromOneTest : public FetchTest {
  protected:
    FetchFromOneTest() {
        fellows_ = {members_[2], members_[3]};
        members_ = {members_[1]};
        for (consensus::FinishedPart& part : wanted_) part.owner = 0;
    }
    void fetch_from(double owners_upload) {
        nodes_[1]->options().upload_bytes_per_s = owners_upload;
        world_.run_task(fetch_with({members_[0]}));
    }
    Task<void> fetch_with(std::vector<PeerId> candidates) {
        PartSources sources{members_, std::move(candidates), fellows_};
        const TimePoint deadline = world_.now() + 120s;
        auto fetched = co_await peers_[0]->fetcher.fetch(wanted_, std::move(sources), deadline);
        EXPECT_TRUE(fetched) << fetched.error().message();
    }
};

TEST_F(FetchFromOneTest, fellows_are_asked_where_a_part_takes_its_owner_long) {
    fetch_from(2000.0 * sizeof(float) / 4);
    const std::size_t of_fellows = peers_[2]->asked.size() + peers_[3]->asked.size();
    EXPECT_GT(of_fellows, 4u);
    EXPECT_EQ(peers_[1]->asked.size(), fetched_parts - of_fellows);
}

TEST_F(FetchFromOneTest, fellows_are_not_asked_where_it_takes_no_time) {
    fetch_from(12.5e6);
    EXPECT_EQ(peers_[1]->asked.size(), fetched_parts);
    EXPECT_EQ(peers_[2]->asked.size() + peers_[3]->asked.size(), 0u);
}

}  // namespace
}  // namespace dedloc::allreduce
