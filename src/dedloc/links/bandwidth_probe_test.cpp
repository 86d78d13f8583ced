// Simulated machines with links of different rates measure them by probes alone.

#include "dedloc/links/bandwidth_probe.h"

#include <gtest/gtest.h>

#include "dedloc/links/messages.h"
#include "dedloc/p2p/handlers.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/message.h"

namespace dedloc::links {
namespace {

class Prober final {
  public:
    Prober(sim::SimNode& node, BandwidthProbeOptions options)
        : probe(node.runtime(), node.host(), asking(std::move(options))),
          handlers_(node.host()),
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
    std::vector<PeerId> partners;
    std::map<PeerId, double> uplinks;  // as told
    BandwidthProbe probe;

  private:
    BandwidthProbeOptions asking(BandwidthProbeOptions options) {
        options.idle = [this] { return idle; };
        options.partners = [this] { return partners; };
        options.uplink_of = [this](const PeerId& peer) {
            const auto known = uplinks.find(peer);
            return known == uplinks.end() ? 0 : known->second;
        };
        return options;
    }

    p2p::Handlers handlers_;
    runtime::Scope scope_;
};

// Takes what others send in their probes, and tells of a gigabyte.
class Boaster final {
  public:
    explicit Boaster(sim::SimNode& node) : handlers_(node.host()) {
        handlers_.on_stream(probe_method, [](std::unique_ptr<p2p::MessageStream> stream) {
            return serve(std::move(stream));
        });
    }
    Task<void> stop() { co_await handlers_.stop(); }

  private:
    static Task<void> serve(std::unique_ptr<p2p::MessageStream> stream) {
        (void)co_await stream->read();
        Bytes ready(1);
        (void)co_await stream->write(std::move(ready));
        for (int i = 0; i < 5; ++i) (void)co_await stream->read();
        ProbeReport report;
        report.milliseconds = {0, 1000};
        report.bytes = {0, 1'000'000'000};
        Bytes message = wire::encode(report);
        (void)co_await stream->write(std::move(message));
        (void)co_await stream->finish();
        while (auto more = co_await stream->read())
            if (!more->has_value()) break;
    }

    p2p::Handlers handlers_;
};

class BandwidthProbeTest : public testing::Test {
  protected:
    BandwidthProbeTest() : world_(5) { options_.vector_bytes = 40e6; }
    ~BandwidthProbeTest() override {
        for (auto& prober : probers_) world_.run_task(prober->stop());
        for (sim::SimNode* node : nodes_) world_.run_task(node->host().stop());
    }
    // Two fast machines (8 MB/s) among six slow ones (1 MB/s), all connected.
    void begin() {
        for (int i = 0; i < 8; ++i) add(rate_of(i), rate_of(i));
        connect_all();
        for (auto& prober : probers_) prober->start();
    }
    void add(double up, double down) {
        sim::NodeOptions node;
        node.upload_bytes_per_s = up;
        node.download_bytes_per_s = down;
        nodes_.push_back(&world_.add_node(node));
        probers_.push_back(std::make_unique<Prober>(*nodes_.back(), options_));
    }
    void connect_all() {
        for (std::size_t i = 0; i < nodes_.size(); ++i)
            for (std::size_t k = 0; k < nodes_.size(); ++k) {
                if (i == k) continue;
                probers_[i]->partners.push_back(nodes_[k]->id());
                if (k > i) continue;
                world_.run_task(connect(*nodes_[i], nodes_[k]->id()));
            }
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
    BandwidthProbeOptions options_;
};

TEST_F(BandwidthProbeTest, finds_every_link_although_all_look_at_the_same_time) {
    begin();
    EXPECT_TRUE(world_.run_until([&] { return all_settled(); }, 120s));
    // A round that fills nobody's link; the second probe comes after it.
    for (auto& prober : probers_) prober->probe.round_gave({.upload = 3e5, .download = 3e5});
    EXPECT_FALSE(all_settled());
    EXPECT_TRUE(world_.run_until([&] { return all_settled(); }, 120s));
    for (int i = 0; i < 8; ++i) {
        const BandwidthProbe& probe = probers_[static_cast<std::size_t>(i)]->probe;
        // Fast machines are seen to be as fast as slow ones take, who take from others as well.
        EXPECT_GT(probe.upload_bytes_per_s(), std::min(rate_of(i), 6e6) * 0.7) << i;
        EXPECT_LT(probe.upload_bytes_per_s(), rate_of(i) * 1.2) << i;
        EXPECT_NEAR(probe.download_bytes_per_s(), rate_of(i), rate_of(i) * 0.3) << i;
    }
}

TEST_F(BandwidthProbeTest, the_second_probe_fills_a_link_that_eight_slow_ones_do_not) {
    add(16e6, 16e6);
    for (int i = 0; i < 14; ++i) add(1e6, 1e6);
    connect_all();
    probers_[0]->start();
    BandwidthProbe& probe = probers_[0]->probe;
    EXPECT_TRUE(world_.run_until([&] { return probe.settled(); }, 60s));
    EXPECT_LT(probe.upload_bytes_per_s(), 9e6);
    probe.round_gave({.upload = 4e6, .download = 4e6});
    EXPECT_FALSE(probe.settled());
    EXPECT_TRUE(world_.run_until([&] { return probe.settled(); }, 60s));
    EXPECT_GT(probe.upload_bytes_per_s(), 12e6);
    EXPECT_GT(probe.download_bytes_per_s(), 12e6);
}

TEST_F(BandwidthProbeTest, believes_what_came_to_the_others_not_what_left) {
    add(8e6, 8e6);
    for (int i = 0; i < 6; ++i) add(1e6, 0.5e6);
    connect_all();
    probers_[0]->start();
    const BandwidthProbe& probe = probers_[0]->probe;
    EXPECT_TRUE(world_.run_until([&] { return probe.settled(); }, 60s));
    EXPECT_NEAR(probe.upload_bytes_per_s(), 3e6, 0.5e6);
}

TEST_F(BandwidthProbeTest, knows_that_it_filled_a_link_by_what_the_partners_say_of_theirs) {
    add(8e6, 1e6);
    for (int i = 0; i < 6; ++i) add(2e6, 8e6);
    connect_all();
    for (std::size_t i = 1; i < nodes_.size(); ++i) probers_[0]->uplinks[nodes_[i]->id()] = 2e6;
    probers_[0]->start();
    const BandwidthProbe& probe = probers_[0]->probe;
    EXPECT_TRUE(world_.run_until([&] { return probe.settled(); }, 60s));
    EXPECT_NEAR(probe.download_bytes_per_s(), 1e6, 0.15e6);
    EXPECT_TRUE(probe.download_was_filled());
}

TEST_F(BandwidthProbeTest, does_not_take_the_partners_links_for_its_own) {
    add(8e6, 8e6);
    for (int i = 0; i < 3; ++i) add(1e6, 8e6);
    connect_all();
    probers_[0]->start();
    const BandwidthProbe& probe = probers_[0]->probe;
    EXPECT_TRUE(world_.run_until([&] { return probe.settled(); }, 60s));
    EXPECT_FALSE(probe.download_was_filled()) << "nobody has said anything of its link";
    for (std::size_t i = 1; i < nodes_.size(); ++i) probers_[0]->uplinks[nodes_[i]->id()] = 1e6;
    probers_[0]->probe.round_gave({.upload = 1e6, .download = 1e6});
    EXPECT_TRUE(world_.run_until([&] { return probe.settled(); }, 60s));
    EXPECT_NEAR(probe.download_bytes_per_s(), 3e6, 0.5e6);
    EXPECT_FALSE(probe.download_was_filled());
}

TEST_F(BandwidthProbeTest, counts_nothing_of_partners_that_tell_of_more_than_they_were_sent) {
    add(1e6, 1e6);
    std::vector<std::unique_ptr<Boaster>> boasters;
    for (int i = 0; i < 4; ++i) {
        nodes_.push_back(&world_.add_node({}));
        boasters.push_back(std::make_unique<Boaster>(*nodes_.back()));
        probers_[0]->partners.push_back(nodes_.back()->id());
        world_.run_task(connect(*nodes_[0], nodes_.back()->id()));
    }
    probers_[0]->start();
    world_.run_until([] { return false; }, 30s);
    EXPECT_GT(nodes_[0]->host().traffic().sent_bytes, 1'000'000u) << "it did probe";
    EXPECT_EQ(probers_[0]->probe.upload_bytes_per_s(), 0);
    for (auto& boaster : boasters) world_.run_task(boaster->stop());
}

TEST_F(BandwidthProbeTest, ends_when_a_round_begins_and_counts_for_nothing) {
    begin();
    const p2p::Host& host = nodes_[0]->host();
    EXPECT_TRUE(world_.run_until([&] { return host.traffic().sent_bytes > 1'000'000; }, 60s));
    for (auto& prober : probers_) prober->idle = false;
    world_.run_until([] { return false; }, 1s);
    std::vector<std::uint64_t> sent;
    for (sim::SimNode* node : nodes_) sent.push_back(node->host().traffic().sent_bytes);
    world_.run_until([] { return false; }, 20s);
    for (std::size_t i = 0; i < nodes_.size(); ++i)
        EXPECT_LT(nodes_[i]->host().traffic().sent_bytes, sent[i] + 10'000) << i;
    EXPECT_EQ(probers_[0]->probe.upload_bytes_per_s(), 0);
}

TEST_F(BandwidthProbeTest, leaves_links_alone_while_there_are_rounds) {
    begin();
    for (auto& prober : probers_) prober->idle = false;
    world_.run_until([] { return false; }, 20s);
    for (sim::SimNode* node : nodes_) EXPECT_LT(node->host().traffic().sent_bytes, 100'000u);
}

TEST_F(BandwidthProbeTest, is_not_worth_it_for_a_vector_that_takes_no_time) {
    options_.vector_bytes = 20e3;
    begin();
    EXPECT_TRUE(all_settled());
    EXPECT_EQ(probers_[0]->probe.upload_bytes_per_s(), 0);
}

TEST_F(BandwidthProbeTest, does_not_look_where_plans_are_told_what_links_carry) {
    options_.granted_is_true = true;
    begin();
    world_.run_until([] { return false; }, 20s);
    for (sim::SimNode* node : nodes_) EXPECT_LT(node->host().traffic().sent_bytes, 100'000u);
}

}  // namespace
}  // namespace dedloc::links
