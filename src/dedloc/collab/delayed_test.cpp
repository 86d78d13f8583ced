// The delayed update (averaging.delayed) in whole collaborations in virtual time: rounds take three
// times as long as a batch, and the trainers compute on meanwhile.

#include <gtest/gtest.h>
#include <set>
#include <utility>

#include "dedloc/collab/collaboration.h"
#include "dedloc/consensus/ledger.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/message.h"

namespace dedloc::collab {
namespace {

constexpr std::size_t delayed_elements = 20'000;
constexpr double bytes_per_s = 4e4;  // fp32: 80 kB go out and come in, one and a half times
constexpr std::uint64_t target = 64;
constexpr std::uint64_t delayed_micro = 4;
constexpr double samples_per_s = 16;
constexpr std::size_t group = 4;

run::RunFile delayed_run(std::uint64_t steps) {
    run::RunFile run;
    run.name = "test";
    run.batch.target = target;
    run.batch.micro = delayed_micro;
    run.averaging.codec = codec::CodecId::fp32;
    run.averaging.part_elements_max = 2000;
    run.averaging.quorum_timeout = 6s;
    run.averaging.round_deadline_min = 20s;
    run.averaging.delayed = true;
    run.stop.steps = steps;
    return run;
}

class DelayedPeer final : public events::EventSink {
  public:
    DelayedPeer(sim::World& world,
                sim::SimNode& node,
                std::vector<std::string> bootstrap,
                run::RunFile run)
        : node_(node), scope_(world.executor()) {
        CollaborationOptions options;
        options.run = std::move(run);
        options.secret = Bytes(16, 7);
        options.layout.parameters_count = delayed_elements;
        options.layout.parameters.push_back({"all", 0, delayed_elements, true, true});
        options.name = node.name();
        options.upload_max = options.download_max = bytes_per_s;
        options.bootstrap = std::move(bootstrap);
        if (options.bootstrap.empty())
            options.initial = *replica::initial_state(
                options.run, options.layout, std::vector<float>(delayed_elements, 1.0f), {});
        collaboration = *Collaboration::make(
            node.runtime(), node.host(), node.signer(), verifier_, std::move(options), this);
        scope_.spawn("train", train());
    }
    Task<void> end() {
        co_await scope_.stop();
        co_await collaboration->stop();
    }
    void record(const events::Event& event) override {
        last.push_back(fmt::format("{:.3f} {} {}", event.time, event.kind(), event.text));
    }
    void leave() { scope_.spawn("leave", leave_task()); }
    std::uint64_t step() const {
        const auto state = collaboration->state();
        return state ? state->step() : 0;
    }
    std::string standing() const {
        return fmt::format("{} {}", step(), collaboration->status().state_hash.hex());
    }
    bool has_told(std::string_view kind) const {
        return std::ranges::any_of(
            last, [&](const std::string& line) { return line.find(kind) != std::string::npos; });
    }
    bool computes_ahead() const { return in_flight_ && samples_.size() > 0; }
    bool waits_for_the_batch() const { return !in_flight_ && samples_.size() > 0; }

    std::unique_ptr<Collaboration> collaboration;
    std::uint64_t computed = 0;
    std::uint64_t handed_in = 0;
    std::uint64_t kept = 0;  // of those computed ahead
    std::uint64_t forgotten = 0;
    std::uint64_t ahead_most = 0;
    int resynced = 0;
    std::vector<std::string> last;  // events
    bool left = false;
    bool ended = false;

  private:
    Task<void> train() {
        const Result<void> started = co_await collaboration->start();
        EXPECT_TRUE(started) << started.error().message();
        reset();
        for (;;) {
            if (outcome_) take_outcome();
            if (!in_flight_ && collaboration->stopped()) break;
            const bool may =
                in_flight_ ? collaboration->may_compute_ahead() : !collaboration->step_due();
            if (may)
                co_await compute();
            else if (in_flight_)
                co_await node_.clock().sleep_for(10ms);
            if (!in_flight_ && collaboration->step_due()) hand_in();
        }
        if (samples_.size() > 0) {
            hand_in();
            while (!outcome_) co_await node_.clock().sleep_for(10ms);
            take_outcome();
        }
        ended = true;
    }
    Task<void> compute() {
        const double seconds = static_cast<double>(delayed_micro) / samples_per_s;
        co_await node_.clock().sleep_for(from_seconds(seconds));
        // No part's average is another's: whoever has none of a step fetches all of it.
        for (std::size_t k = 0; k < sum_.size(); ++k)
            sum_[k] += static_cast<float>(delayed_micro + (samples_.begin + k) * k % 97) * 0.5f;
        samples_.end += delayed_micro;
        computed += delayed_micro;
        if (in_flight_) ahead_most = std::max(ahead_most, samples_.size());
        collaboration->report(delayed_micro, static_cast<double>(delayed_micro), seconds);
        // The collaboration has forgotten what was computed ahead already; we have not.
        const bool resyncs = outcome_ && *outcome_ && (*outcome_)->kind == StepKind::resynced;
        EXPECT_TRUE(!resyncs || collaboration->status().samples == 0);
    }
    void hand_in() {
        Contribution contribution;
        contribution.samples = samples_;
        contribution.sum = sum_;
        handed_in += samples_.size();
        reset();
        collaboration->compute_ahead();
        in_flight_ = true;
        scope_.spawn("step", step_beside(std::move(contribution)));
    }
    Task<void> step_beside(Contribution contribution) {
        auto outcome = co_await collaboration->step(std::move(contribution));
        outcome_.emplace(std::move(outcome));
    }
    void take_outcome() {
        in_flight_ = false;
        const Result<StepOutcome> outcome = *std::exchange(outcome_, std::nullopt);
        ASSERT_TRUE(outcome) << outcome.error().message();
        if (outcome->kind == StepKind::stepped) {
            kept += samples_.size();
            EXPECT_EQ(collaboration->status().samples, samples_.size());
            return;
        }
        if (outcome->kind == StepKind::resynced) ++resynced;
        forgotten += samples_.size();
        collaboration->forget_ahead(samples_.size());
        reset();
    }
    void reset() {
        samples_ = {samples_.end, samples_.end};
        sum_.assign(delayed_elements, 0.0f);
    }
    Task<void> leave_task() {
        co_await collaboration->leave(60s);
        left = true;
    }

    sim::SimNode& node_;
    security::ToyVerifier verifier_;
    CounterRange samples_;
    std::vector<float> sum_;
    bool in_flight_ = false;
    std::optional<Result<StepOutcome>> outcome_;
    runtime::Scope scope_;
};

class Delayed : public testing::Test {
  protected:
    ~Delayed() override {
        if (HasFailure()) print();
        for (auto& peer : peers) world.run_task(peer->end());
    }
    void start(std::uint64_t steps = 0) { start(delayed_run(steps)); }
    void start(const run::RunFile& run) {
        for (std::size_t i = 0; i < group; ++i) {
            sim::NodeOptions options;
            options.name = "p" + std::to_string(i);
            sim::SimNode& node = world.add_node(options);
            std::vector<std::string> bootstrap;
            for (std::size_t k = 0; k < i; ++k)
                bootstrap.push_back(world.node(k).address() + "/p2p/" + world.node(k).id().text());
            peers.push_back(std::make_unique<DelayedPeer>(world, node, bootstrap, run));
        }
        // Joining is another matter: lines are slow once everybody has the state.
        const auto joined = [](const auto& peer) {
            return peer->collaboration->state() != nullptr;
        };
        EXPECT_TRUE(world.run_until([&] { return std::ranges::all_of(peers, joined); }, 60s));
        for (std::size_t i = 0; i < group; ++i) set_line(i, bytes_per_s);
    }
    void set_line(std::size_t peer, double rate) {
        sim::NodeOptions& line = world.node(peer).options();
        line.upload_bytes_per_s = line.download_bytes_per_s = rate;
    }
    PeerId leads_next() {
        const auto chain =
            wire::decode<consensus::CertificatesReply>(peers[0]->collaboration->chain());
        const auto newest = wire::decode<consensus::Certificate>(chain->certificates.back());
        const auto decision = wire::decode<consensus::Decision>(newest->decision);
        const Digest digest = consensus::decision_digest(newest->decision);
        return consensus::leader_order(digest, decision->next_voters).front();
    }
    bool until_step(std::uint64_t step) {
        return world.run_until(
            [&] {
                return std::ranges::all_of(
                    peers, [&](const auto& peer) { return peer->left || peer->step() >= step; });
            },
            240s);
    }
    bool are_identical() {
        return world.run_until(
            [&] {
                std::set<std::string> standings;
                for (const auto& peer : peers)
                    if (!peer->left) standings.insert(peer->standing());
                return standings.size() == 1;
            },
            20s);
    }

    void print() const {
        for (const auto& peer : peers) {
            fmt::print("step {} left {} ended {} computed {} handed in {} forgotten {}\n",
                       peer->step(),
                       peer->left,
                       peer->ended,
                       peer->computed,
                       peer->handed_in,
                       peer->forgotten);
            const auto& last = peer->last;
            for (std::size_t k = last.size() > 30 ? last.size() - 30 : 0; k < last.size(); ++k)
                fmt::print("   {}\n", last[k]);
        }
    }

    sim::World world{11};
    std::vector<std::unique_ptr<DelayedPeer>> peers;
};

TEST_F(Delayed, trainers_compute_their_share_of_the_next_batch_while_a_step_is_made) {
    start();
    // Everybody has come and knows the others' speeds.
    ASSERT_TRUE(until_step(3));
    std::vector<double> expired;
    for (const auto& peer : peers) {
        peer->ahead_most = 0;
        expired.push_back(peer->collaboration->accounts().samples_expired);
    }
    ASSERT_TRUE(until_step(8));
    for (const auto& peer : peers) {
        EXPECT_GE(peer->kept, 4 * target / group / 2);
        EXPECT_LE(peer->ahead_most, target / group + delayed_micro);
        EXPECT_EQ(peer->forgotten, 0u);
        EXPECT_EQ(peer->collaboration->accounts().samples_dropped, 0u);
    }
    for (std::size_t i = 0; i < group; ++i)
        EXPECT_EQ(peers[i]->collaboration->accounts().samples_expired, expired[i]);
    EXPECT_TRUE(are_identical());
}

TEST_F(Delayed, what_was_computed_ahead_on_a_losing_branch_is_dropped_and_counted) {
    start();
    ASSERT_TRUE(until_step(3));
    ASSERT_TRUE(world.run_until([&] { return peers[3]->computes_ahead(); }, 60s));
    world.partition({{"p0", "p1", "p2"}, {"p3"}});
    const std::uint64_t step = peers[3]->step();
    ASSERT_TRUE(world.run_until([&] { return peers[3]->step() > step; }, 240s)) << "alone";
    world.heal();
    ASSERT_TRUE(world.run_until([&] { return peers[3]->resynced > 0; }, 60s));
    ASSERT_TRUE(until_step(peers[0]->step() + 3));
    EXPECT_GT(peers[3]->forgotten, 0u);
    EXPECT_GE(peers[3]->collaboration->accounts().samples_dropped, peers[3]->forgotten);
    EXPECT_EQ(peers[0]->forgotten, 0u);
    EXPECT_TRUE(are_identical());
}

TEST_F(Delayed, who_leaves_while_a_step_is_made_hands_in_what_it_computed_ahead) {
    start();
    ASSERT_TRUE(until_step(3));
    DelayedPeer& leaver = *peers[2];
    ASSERT_TRUE(world.run_until([&] { return leaver.computes_ahead(); }, 60s));
    leaver.leave();
    ASSERT_TRUE(world.run_until([&] { return leaver.left && leaver.ended; }, 60s));
    EXPECT_EQ(leaver.forgotten, 0u);
    EXPECT_EQ(leaver.handed_in, leaver.computed);
    EXPECT_EQ(leaver.collaboration->accounts().samples_dropped, 0u);
    EXPECT_EQ(leaver.collaboration->status().committed_samples, leaver.computed);
    ASSERT_TRUE(until_step(peers[0]->step() + 3));
    EXPECT_TRUE(are_identical());
}

// The leaver hears of the step that was made without it, and has the old state for as long as the
// average is on its way; with what the others have for the next step, its batch looks full
// meanwhile.
TEST_F(Delayed, a_leaver_that_missed_a_step_hands_nothing_in_before_it_has_that_step) {
    run::RunFile run = delayed_run(/*steps=*/0);
    run.batch.target = 2 * target;
    start(run);
    for (std::size_t i = 0; i < group; ++i) set_line(i, 100 * bytes_per_s);
    ASSERT_TRUE(until_step(3));
    const std::size_t at = leads_next() == world.node(3).id() ? 2 : 3;
    DelayedPeer& leaver = *peers[at];
    ASSERT_TRUE(world.run_until([&] { return leaver.waits_for_the_batch(); }, 60s));
    const std::uint64_t step = leaver.step();
    leaver.collaboration->set_paused(true);  // the others do not wait for it
    world.run_for(500ms);
    leaver.leave();
    set_line(at, bytes_per_s);
    world.node(at).freeze_for(2300ms);
    ASSERT_TRUE(world.run_until([&] { return peers[0]->step() > step; }, 60s));
    ASSERT_EQ(leaver.step(), step);
    const auto hands_in_or_goes = [&] {
        return leaver.collaboration->status().phase == membership::Phase::leaving;
    };
    ASSERT_FALSE(hands_in_or_goes());
    ASSERT_TRUE(world.run_until(hands_in_or_goes, 60s));
    EXPECT_GT(leaver.step(), step);
    // The leaver stands on the newest certificate.
    EXPECT_FALSE(leaver.collaboration->status().certificate.is_zero());
    ASSERT_TRUE(world.run_until([&] { return leaver.left && leaver.ended; }, 60s));
    ASSERT_TRUE(until_step(step + 3));
    EXPECT_TRUE(are_identical());
}

// The others count on what the leaver would have computed by now, and hand in before it finds the
// batch full.
TEST_F(Delayed, a_leaver_hands_in_when_another_peer_does) {
    start();
    for (std::size_t i = 0; i < group; ++i) set_line(i, 100 * bytes_per_s);
    ASSERT_TRUE(until_step(3));
    DelayedPeer& leaver = *peers[2];
    const std::uint64_t step = leaver.step();
    ASSERT_TRUE(
        world.run_until([&] { return leaver.step() > step && leaver.waits_for_the_batch(); }, 60s));
    leaver.leave();
    ASSERT_TRUE(world.run_until([&] { return leaver.left && leaver.ended; }, 10s));
    EXPECT_EQ(leaver.handed_in, leaver.computed);
    EXPECT_EQ(leaver.collaboration->accounts().samples_dropped, 0u);
    EXPECT_EQ(leaver.collaboration->status().committed_samples, leaver.computed);
    for (const auto& peer : peers)
        EXPECT_FALSE(peer->has_told("waited_in_vain")) << peer->collaboration->status().name;
    ASSERT_TRUE(until_step(peers[0]->step() + 3));
    EXPECT_TRUE(are_identical());
}

TEST_F(Delayed, what_was_computed_ahead_of_the_last_step_is_dropped_and_counted) {
    start(/*steps=*/5);
    ASSERT_TRUE(world.run_until(
        [&] { return std::ranges::all_of(peers, [](const auto& peer) { return peer->ended; }); },
        240s));
    std::uint64_t forgotten = 0;
    for (const auto& peer : peers) {
        EXPECT_EQ(peer->step(), 5u);
        EXPECT_EQ(peer->handed_in + peer->forgotten, peer->computed);
        EXPECT_EQ(peer->collaboration->accounts().samples_dropped, peer->forgotten);
        forgotten += peer->forgotten;
    }
    EXPECT_GT(forgotten, 0u);
    EXPECT_TRUE(are_identical());
}

}  // namespace
}  // namespace dedloc::collab
