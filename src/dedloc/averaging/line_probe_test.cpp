// Simulated machines with lines of different rates measure them by probes alone.

#include "dedloc/averaging/line_probe.h"

#include <gtest/gtest.h>

#include "dedloc/averaging/averaging_testing.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::averaging {
namespace {

class Prober final : public TestPeer {
  public:
    Prober(sim::SimNode& node, RoundOptions options)
        : TestPeer(node, options),
          probe(context_, [this] { return idle; }),
          scope_(node.runtime().executor) {
        handlers_.on_stream(probe_method, [this](std::unique_ptr<p2p::MessageStream> stream) {
            return probe.serve(std::move(stream));
        });
    }
    void start() { scope_.spawn("probe", probe.run()); }
    Task<void> stop() {
        co_await handlers_.stop();
        co_await scope_.stop();
    }

    bool idle = true;
    LineProbe probe;

  private:
    runtime::Scope scope_;
};

class LineProbeTest : public testing::Test {
  protected:
    LineProbeTest() : world_(5) { options_.vector_count = 20'000'000; }
    ~LineProbeTest() override {
        for (auto& prober : probers_) world_.run_task(prober->stop());
        for (sim::SimNode* node : nodes_) world_.run_task(node->host().stop());
    }
    // Two fast machines (8 MB/s) among six slow ones (1 MB/s), all connected.
    void begin() {
        for (int i = 0; i < 8; ++i) {
            sim::NodeOptions node;
            node.upload_bytes_per_s = node.download_bytes_per_s = rate_of(i);
            nodes_.push_back(&world_.add_node(node));
            probers_.push_back(std::make_unique<Prober>(*nodes_.back(), options_));
        }
        for (std::size_t i = 0; i < nodes_.size(); ++i)
            for (std::size_t k = 0; k < nodes_.size(); ++k) {
                if (i == k) continue;
                probers_[i]->trainers.push_back(nodes_[k]->id());
                if (k > i) continue;
                world_.run_task(connect(*nodes_[i], nodes_[k]->id()));
            }
        for (auto& prober : probers_) prober->start();
    }
    Task<void> connect(sim::SimNode& node, PeerId to) {
        const TimePoint deadline = world_.now() + 10s;
        const auto connected = co_await node.host().connect(to, deadline);
        EXPECT_TRUE(connected);
    }
    static double rate_of(int machine) { return machine < 2 ? 8e6 : 1e6; }
    bool all_settled() const {
        return std::ranges::all_of(probers_,
                                   [](const auto& prober) { return prober->probe.settled(); });
    }

    sim::World world_;
    std::vector<sim::SimNode*> nodes_;
    std::vector<std::unique_ptr<Prober>> probers_;
    RoundOptions options_;
};

TEST_F(LineProbeTest, finds_every_line_although_all_look_at_the_same_time) {
    begin();
    EXPECT_TRUE(world_.run_until([&] { return all_settled(); }, 120s));
    for (int i = 0; i < 8; ++i) {
        const LineProbe& probe = probers_[static_cast<std::size_t>(i)]->probe;
        EXPECT_NEAR(probe.upload_bytes_per_s(), rate_of(i), rate_of(i) * 0.3) << i;
        EXPECT_NEAR(probe.download_bytes_per_s(), rate_of(i), rate_of(i) * 0.3) << i;
    }
}

TEST_F(LineProbeTest, leaves_lines_alone_while_there_are_rounds) {
    begin();
    for (auto& prober : probers_) prober->idle = false;
    world_.run_until([] { return false; }, 20s);
    for (sim::SimNode* node : nodes_) EXPECT_LT(node->host().traffic().sent_bytes, 100'000u);
}

TEST_F(LineProbeTest, is_not_worth_it_for_a_vector_that_takes_no_time) {
    options_.vector_count = 10'000;
    begin();
    EXPECT_TRUE(all_settled());
    EXPECT_EQ(probers_[0]->probe.upload_bytes_per_s(), 0);
}

TEST_F(LineProbeTest, does_not_take_more_than_the_user_grants) {
    options_.upload_max = options_.download_max = 50'000;
    begin();
    world_.run_until([] { return false; }, 20s);
    for (sim::SimNode* node : nodes_) EXPECT_LT(node->host().traffic().sent_bytes, 100'000u);
}

}  // namespace
}  // namespace dedloc::averaging
