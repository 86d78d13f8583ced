// Whole collaborations in virtual time: a few peers, a pure function as the gradient.

#include "dedloc/collab/collaboration.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <set>

#include "dedloc/admission/book_issuer.h"
#include "dedloc/averaging/messages.h"
#include "dedloc/collab/lab.h"
#include "dedloc/membership/membership.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/run/join_string.h"
#include "dedloc/run/vector_codecs.h"
#include "dedloc/security/toy_signature.h"
#include "dedloc/sim/world.h"
#include "dedloc/state/transfer.h"
#include "dedloc/wire/message.h"

namespace dedloc::collab {
namespace {

constexpr std::size_t elements = 1000;
constexpr std::size_t elements_many = 200'000;  // 0.8 MB: enough to measure a line with

run::RunFile small_run(std::size_t count = elements) {
    run::RunFile run;
    run.name = "test";
    run.batch.target = 256;
    run.batch.micro = 16;
    run.averaging.codec = codec::CodecId::fp32;
    run.averaging.part_elements_max = std::max<std::size_t>(200, count / 50);
    run.averaging.quorum_timeout = 6s;
    run.averaging.leave_out_slow = false;
    return run;
}

struct Model {
    run::RunFile run;
    run::Layout layout;
};

Model small_model(std::size_t count) {
    Model model{small_run(count), {}};
    model.layout.parameters_count = count;
    model.layout.parameters.push_back({"all", 0, count, true, true});
    return model;
}

Model impatient_model(std::size_t count) {
    Model model = small_model(count);
    model.run.averaging.leave_out_slow = true;
    return model;
}

// Large tensors and small ones, each in its codec.
Model adaptive_model() {
    Model model{small_run(elements_many), {}};
    model.run.averaging.codec.reset();
    for (const std::size_t count : {70'000u, 500u, 90'000u, 20'000u}) {
        const auto offset = static_cast<std::size_t>(model.layout.parameters_count);
        model.layout.parameters.push_back({"t", offset, count, true, true});
        model.layout.parameters_count += count;
    }
    model.layout.buffers_count = 300;
    return model;
}

// The gradient of sample `counter` of a peer at a state: any pure function will do.
float gradient(std::uint64_t counter, std::size_t element, float parameter) {
    const auto noise = static_cast<float>((counter * 31 + element * 7) % 17) - 8.0f;
    return parameter + 0.125f * noise;
}

class Events final : public events::EventSink {
  public:
    void record(const events::Event& event) override {
        ++counts[std::string(event.kind())];
        last.push_back(fmt::format("{:.3f} {} {}", event.time, event.kind(), event.text));
        if (const auto* plan = event.as<events::PlanMade>()) plans.push_back({event.step, *plan});
        const auto* made = event.as<events::StepMade>();
        if (made == nullptr) return;
        steps[made->step] = *made;
        losses[made->step] = made->loss;
        contributors[made->step] = made->contributors;
    }
    std::map<std::string, int> counts;
    std::vector<std::string> last;
    struct Planned {
        std::uint64_t step;  // newest committed one
        events::PlanMade plan;
    };
    std::vector<Planned> plans;
    std::map<std::uint64_t, events::StepMade> steps;
    std::map<std::uint64_t, double> losses;  // by step
    std::map<std::uint64_t, std::uint64_t> contributors;
};

// The bounds of a round, of the peers known to a peer, and for averages.
struct Room {
    std::size_t members_max = consensus::members_max;
    std::size_t peers_max = membership::peers_max;
    std::size_t kept_bytes_max = 512u << 20;
    std::uint64_t differs_at_step = 0;  // planted: it computes another state than the others
    std::function<void(const FrozenContribution&)> on_frozen{};  // of a sparse run; may be empty
    std::function<void(sim::SimNode&, CollaborationOptions&)>
        admit{};  // of an invited run; may be empty
};

class Peer {
  public:
    Peer(sim::SimNode& node,
         std::vector<std::string> bootstrap,
         double samples_per_s,
         const Model& model,
         const Room& room)
        : node_(node),
          samples_per_s_(samples_per_s),
          layout_(model.layout),
          scope_(node.runtime().executor) {
        CollaborationOptions options;
        options.run = model.run;
        options.secret = Bytes(16, 7);
        options.layout = model.layout;
        options.name = node.name();
        options.bootstrap = std::move(bootstrap);
        options.members_max = room.members_max;
        options.peers_max = room.peers_max;
        options.kept_bytes_max = room.kept_bytes_max;
        if (room.admit) room.admit(node, options);
        if (options.bootstrap.empty())
            options.initial =
                *replica::initial_state(options.run,
                                        options.layout,
                                        std::vector<float>(layout_.parameters_count, 1.0f),
                                        std::vector<float>(layout_.buffers_count, 1.0f));
        Planted planted;
        planted.bugs.differs_at_step = room.differs_at_step;
        planted.on_frozen = room.on_frozen;
        auto made = make_planted(node.runtime(),
                                 node.host(),
                                 node.signer(),
                                 verifier_,
                                 std::move(options),
                                 &events,
                                 std::move(planted));
        EXPECT_TRUE(made) << made.error().message();
        collaboration = *std::move(made);
    }

    void begin() { scope_.spawn("train", train()); }

    Task<void> end() {
        co_await scope_.stop();
        co_await collaboration->stop();
    }

    Task<void> train() {
        const Result<void> started = co_await collaboration->start();
        if (!started) {
            start_error = started.error().message();
            start_error_kind = started.error().kind();
            co_return;
        }
        running = true;
        std::uint64_t counter = 0;
        Contribution contribution;
        reset(contribution, counter);
        const std::uint64_t micro = 16;
        while (!collaboration->stopped()) {
            const double seconds = seconds_of_next(micro);
            const bool keeps_some = collaboration->paused() && contribution.samples.size() > 0;
            if (keeps_some && !collaboration->step_due()) {
                co_await node_.runtime().clock.sleep_for(20ms);
                continue;
            }
            if (!collaboration->may_compute() && !keeps_some) {
                ++rests;
                Contribution nothing;
                auto outcome = co_await collaboration->step(std::move(nothing));
                EXPECT_TRUE(outcome) << outcome.error().message();
                reset(contribution, counter);
                continue;
            }
            co_await node_.runtime().clock.sleep_for(from_seconds(seconds));
            if (bad_micro_batches > 0 && contribution.samples.size() > 0) {
                --bad_micro_batches;
                counter += micro;
                contribution.samples.end += micro;
                contribution.samples.left_out += micro;
                collaboration->report_not_finite(micro);
                continue;
            }
            compute(contribution, counter, micro, seconds);
            if (!collaboration->step_due()) continue;
            std::optional<Contribution> early;
            if (when_expected)
                contribution.on_expected = [&](std::shared_ptr<const state::Snapshot> expected) {
                    early.emplace();
                    reset(*early, counter);
                    state_ = expected;
                    compute(*early, counter, micro, seconds_of_next(micro));
                    when_expected(*expected);
                };
            auto outcome = co_await collaboration->step(std::move(contribution));
            EXPECT_TRUE(outcome) << outcome.error().message();
            state_ = outcome->state;
            if (outcome->kind == StepKind::stepped) ++steps;
            if (outcome->refused) ++refused;
            reset(contribution, counter);
            if (!early) continue;
            if (outcome->kind == StepKind::stepped)
                contribution = *std::move(early);
            else
                collaboration->forget_ahead(micro);
        }
        running = false;
    }

    std::uint64_t step() const {
        const auto state = collaboration->state();
        return state ? state->step() : 0;
    }
    Digest hash() const { return collaboration->status().state_hash; }

    std::unique_ptr<Collaboration> collaboration;
    Events events;
    bool running = false;
    int steps = 0;
    int bad_micro_batches = 0;  // of the next ones
    int rests = 0;              // steps without a contribution
    int refused = 0;            // contributions
    int waits_every = 0;        // so many micro-batches for the processor
    std::uint64_t computed = 0;
    // If it is not empty, this peer computes a micro-batch as soon as it is told of a state that a
    // step leads to, and then asks this.
    std::function<void(const state::Snapshot& expected)> when_expected{};
    std::string start_error;
    std::optional<ErrorKind> start_error_kind;

  private:
    void reset(Contribution& contribution, std::uint64_t counter) {
        contribution = Contribution{};
        contribution.samples = {counter, counter};
        contribution.sum.assign(layout_.vector_count(), 0.0f);
        state_ = collaboration->state();
    }
    double seconds_of_next(std::uint64_t samples) {
        constexpr double waiting_s = 0.4;
        if (waits_every > 0 && ++micro_batches_ % waits_every == 0) return waiting_s;
        return static_cast<double>(samples) / samples_per_s_;
    }
    void compute(Contribution& contribution,
                 std::uint64_t& counter,
                 std::uint64_t samples,
                 double seconds) {
        accumulate(contribution, samples);
        counter += samples;
        computed += samples;
        collaboration->report(samples, static_cast<double>(samples), seconds);
    }
    void accumulate(Contribution& contribution, std::uint64_t samples) {
        const auto parameters = replica::parameters_of(*state_);
        for (std::uint64_t i = 0; i < samples; ++i) {
            const std::uint64_t counter = contribution.samples.end++;
            // All over the vector, but not all of a long one.
            const std::size_t stride = std::max<std::size_t>(1, parameters.size() / elements);
            for (std::size_t k = 0; k < parameters.size(); k += stride)
                contribution.sum[k] += gradient(counter, k, parameters[k]);
        }
    }

    sim::SimNode& node_;
    double samples_per_s_;
    int micro_batches_ = 0;
    run::Layout layout_;
    security::ToyVerifier verifier_;
    std::shared_ptr<const state::Snapshot> state_;
    runtime::Scope scope_;
};

// A peer that only reduces: `dedloc assist` in virtual time.
class Helper {
  public:
    Helper(sim::SimNode& node, std::vector<std::string> bootstrap, const run::RunFile& run)
        : scope_(node.runtime().executor) {
        CollaborationOptions options;
        options.run = run;
        options.secret = Bytes(16, 7);
        options.name = "helper";
        options.role = membership::Role::aggregator;
        options.bootstrap = std::move(bootstrap);
        options.reduce_bytes_max = 256u << 10;
        auto made = Collaboration::make(
            node.runtime(), node.host(), node.signer(), verifier_, std::move(options), &events);
        EXPECT_TRUE(made) << made.error().message();
        collaboration = *std::move(made);
        scope_.spawn("assist", assist());
    }
    Task<void> assist() {
        const Result<void> started = co_await collaboration->start();
        EXPECT_TRUE(started) << started.error().message();
    }
    Task<void> end() {
        co_await scope_.stop();
        co_await collaboration->stop();
    }

    std::unique_ptr<Collaboration> collaboration;
    Events events;

  private:
    security::ToyVerifier verifier_;
    runtime::Scope scope_;
};

class Swarm {
  public:
    explicit Swarm(std::uint64_t seed, sim::WorldOptions options = {}) : world(seed, options) {}
    ~Swarm() {
        if (helper) world.run_task(helper->end());
        for (auto& peer : peers)
            if (peer) world.run_task(peer->end());
    }
    Peer& add(double samples_per_s = 64,
              std::size_t count = elements,
              double upload_bytes_per_s = 12.5e6) {
        return add(samples_per_s, small_model(count), upload_bytes_per_s);
    }
    Peer& add(double samples_per_s, const Model& model, double upload_bytes_per_s) {
        sim::NodeOptions options;
        options.upload_bytes_per_s = upload_bytes_per_s;
        options.name = "p" + std::to_string(peers.size());
        sim::SimNode& node = world.add_node(options);
        std::vector<std::string> bootstrap;
        for (std::size_t i = 0; i + 1 < world.nodes_count() && i < bootstrap_most; ++i)
            bootstrap.push_back(world.node(i).address() + "/p2p/" + world.node(i).id().text());
        peers.push_back(std::make_unique<Peer>(node, bootstrap, samples_per_s, model, room));
        peers.back()->begin();
        return *peers.back();
    }
    Helper& add_helper(std::size_t count) { return add_helper(small_run(count)); }
    Helper& add_helper(const run::RunFile& run) {
        std::vector<std::string> bootstrap{world.node(0).address() + "/p2p/" +
                                           world.node(0).id().text()};
        sim::NodeOptions options;
        options.name = "helper";
        helper_node = &world.add_node(options);
        helper = std::make_unique<Helper>(*helper_node, bootstrap, run);
        return *helper;
    }
    void kill_helper() {
        helper_node->kill();
        world.run_task(helper->end());
        helper.reset();
        world.run_task(helper_node->host().stop());
    }
    void kill(std::size_t i) {
        world.node(i).kill();
        world.run_task(peers[i]->end());
        peers[i].reset();
        world.run_task(world.node(i).host().stop());
    }
    bool all_at(std::uint64_t step) const {
        for (const auto& peer : peers)
            if (peer && (!peer->running || peer->step() < step)) return false;
        return true;
    }
    bool all_share() const {
        return std::ranges::all_of(peers, [](const auto& peer) {
            return peer->running && peer->collaboration->status().committed_samples > 0;
        });
    }
    // From now on, until everybody has made so many more.
    Duration duration_of_steps(std::uint64_t steps) {
        const TimePoint begun = world.now();
        const std::uint64_t goal = peers[0]->step() + steps;
        EXPECT_TRUE(world.run_until([&] { return all_at(goal); }, 240s));
        return world.now() - begun;
    }
    // How much of the vector a peer reduced in the newest step, 0 to 1.
    double share_of(std::size_t i) { return share_of(world.node(i).id()); }
    double share_of(const PeerId& peer) {
        const consensus::RoundPlan plan = newest_plan();
        if (plan.parts.empty()) return 0;
        double owned = 0;
        for (const consensus::PlanPart& part : plan.parts)
            if (plan.members[part.owner].peer == peer) owned += static_cast<double>(part.count);
        return owned / static_cast<double>(plan.parts.back().range().end());
    }
    consensus::RoundPlan newest_plan() {
        const auto tail =
            wire::decode<consensus::CertificatesReply>(peers[0]->collaboration->chain());
        for (auto bytes = tail->certificates.rbegin(); bytes != tail->certificates.rend();
             ++bytes) {
            const auto certificate = wire::decode<consensus::Certificate>(*bytes);
            const auto decision = wire::decode<consensus::Decision>(certificate->decision);
            auto plan = wire::decode<consensus::RoundPlan>(decision->plan);
            if (plan && !plan->parts.empty()) return *std::move(plan);
        }
        return {};
    }
    std::set<std::string> hashes_at_same_step() const {
        std::set<std::string> hashes;
        for (const auto& peer : peers)
            if (peer) hashes.insert(fmt::format("{} {}", peer->step(), peer->hash().hex()));
        return hashes;
    }
    void print() const {
        for (std::size_t i = 0; i < peers.size(); ++i) {
            if (!peers[i]) continue;
            fmt::print("p{} step {} running {} {}\n",
                       i,
                       peers[i]->step(),
                       peers[i]->running,
                       peers[i]->start_error);
            const auto& last = peers[i]->events.last;
            for (std::size_t k = last.size() > 40 ? last.size() - 40 : 0; k < last.size(); ++k)
                fmt::print("   {}\n", last[k]);
        }
    }

    sim::World world;
    Room room;  // of those who are added from now on
    std::size_t bootstrap_most = 99;
    std::vector<std::unique_ptr<Peer>> peers;
    std::unique_ptr<Helper> helper;
    sim::SimNode* helper_node = nullptr;
};

// Everybody who may vote after any of the newest decisions.
std::set<PeerId> recent_voters(const Collaboration& collaboration) {
    std::set<PeerId> voters;
    const auto tail = wire::decode<consensus::CertificatesReply>(collaboration.chain());
    for (const Bytes& bytes : tail->certificates) {
        const auto certificate = wire::decode<consensus::Certificate>(bytes);
        const auto decision = wire::decode<consensus::Decision>(certificate->decision);
        for (const consensus::Voter& voter : decision->next_voters) voters.insert(voter.peer);
    }
    return voters;
}

TEST(Collaboration, one_peer_trains_alone) {
    Swarm swarm(1);
    swarm.add();
    const bool done = swarm.world.run_until([&] { return swarm.all_at(3); }, 60s);
    if (!done) swarm.print();
    EXPECT_TRUE(done);
}

// An only voter shows this of itself and has it on disk: a step without its vote changes nothing.
struct Shown {
    explicit Shown(Swarm& swarm)
        : status(swarm.peers[0]->collaboration->status()),
          step(swarm.peers[0]->step()),
          chain(swarm.peers[0]->collaboration->chain()),
          votes(swarm.world.node(0).disk().files().at("votes")),
          told(swarm.peers[0]->events.counts["step"]) {}
    bool is_at(std::uint64_t of) const { return status.step == of && step == of; }
    bool operator==(const Shown& other) const {
        return status.step == other.status.step && status.state_hash == other.status.state_hash &&
               status.certificate == other.status.certificate && step == other.step &&
               chain == other.chain && votes == other.votes && told == other.told;
    }
    membership::Status status;
    std::uint64_t step = 0;
    Bytes chain;
    Bytes votes;
    int told = 0;
};

TEST(Collaboration, an_only_voter_computes_on_while_its_step_is_made_and_shows_nobody) {
    Swarm swarm(1);
    Peer& peer = swarm.add();
    std::uint64_t expected_last = 0;
    peer.when_expected = [&](const state::Snapshot& expected) {
        EXPECT_EQ(expected.step(), expected_last + 1);
        expected_last = expected.step();
        EXPECT_TRUE(Shown(swarm).is_at(expected.step() - 1));
    };
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(5); }, 120s));
    EXPECT_GE(expected_last, 5u);
    EXPECT_EQ(peer.collaboration->accounts().samples_dropped, 0u);
    EXPECT_GE(peer.collaboration->status().committed_samples, 5u * 256);
}

TEST(Collaboration, a_vote_that_cannot_be_written_shows_nobody_where_it_would_lead) {
    Swarm swarm(2);
    Peer& peer = swarm.add();
    std::uint64_t expected_last = 0;
    peer.when_expected = [&](const state::Snapshot& expected) { expected_last = expected.step(); };
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(2); }, 120s));
    swarm.world.node(0).disk().set_full(true);
    const Shown before(swarm);
    ASSERT_TRUE(swarm.world.run_until([&] { return expected_last == 3; }, 120s));
    swarm.world.run_for(10s);
    EXPECT_TRUE(before.is_at(2));
    EXPECT_TRUE(Shown(swarm) == before);
    swarm.world.node(0).disk().set_full(false);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(5); }, 120s));
    // The step that was made then led to the state that was computed from.
    EXPECT_EQ(peer.collaboration->accounts().samples_dropped, 0u);
}

// By its samples, or by an accuracy that one of three has measured: the others hear of it.
TEST(Collaboration, a_run_ends_for_all_at_its_samples_or_at_its_accuracy) {
    for (const bool measured : {false, true}) {
        Swarm swarm(2);
        Model model = small_model(elements);
        if (measured)
            model.run.stop.accuracy = 0.9;
        else
            model.run.stop.samples = 3000;
        for (int i = 0; i < 3; ++i) swarm.add(64, model, 12.5e6);
        const auto over = [](const auto& peer) { return peer->collaboration->stopped(); };
        ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(3); }, 60s));
        EXPECT_TRUE(std::ranges::none_of(swarm.peers, over));
        Collaboration& meter = *swarm.peers[1]->collaboration;
        if (measured) {
            meter.report_evaluation(3, {.loss = 1, .accuracy = 0.89, .samples = 100});
            EXPECT_FALSE(meter.stopped());
            meter.report_evaluation(4, {.loss = 1, .accuracy = 0.95, .samples = 100});
        }
        const auto all_over = [&] { return std::ranges::all_of(swarm.peers, over); };
        const bool done = swarm.world.run_until(all_over, measured ? 10s : 120s);
        if (!done) swarm.print();
        ASSERT_TRUE(done);
        for (const auto& peer : swarm.peers) {
            EXPECT_EQ(peer->events.counts["run_over"], 1);
            if (measured) continue;
            const std::uint64_t samples = peer->collaboration->state()->info().samples;
            EXPECT_GE(samples, 3000u);
            EXPECT_LT(samples, 3000u + 2 * model.run.batch.target);
        }
    }
}

TEST(Collaboration, averages_larger_than_what_is_kept_of_them_make_steps_and_newcomers_catch_up) {
    Swarm swarm(1);
    swarm.room.kept_bytes_max = 1;
    swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(3); }, 60s));
    for (int i = 0; i < 2; ++i) swarm.add();
    EXPECT_TRUE(swarm.world.run_until([&] { return swarm.all_at(12); }, 120s));
    for (const auto& peer : swarm.peers) EXPECT_EQ(peer->events.counts["replay_failed"], 0);
}

TEST(Collaboration, four_peers_train_together_and_stay_identical) {
    Swarm swarm(2);
    for (int i = 0; i < 4; ++i) swarm.add();
    const bool done = swarm.world.run_until([&] { return swarm.all_at(10); }, 60s);
    if (!done) swarm.print();
    ASSERT_TRUE(done);
    EXPECT_GE(swarm.peers[3]->steps, 5);
    const bool same =
        swarm.world.run_until([&] { return swarm.hashes_at_same_step().size() == 1; }, 10s);
    EXPECT_TRUE(same);
}

// Promise 1. The last of `count` peers comes to another state at a step than the others do; all
// have one state again, a step on or more, `within` that time. Returns how long the first peer took
// for its longest step from then on.
Duration mend_the_one_that_differs(Swarm& swarm, int count, Duration within) {
    constexpr std::uint64_t step = 6;
    for (int i = 1; i < count; ++i) swarm.add();
    swarm.room.differs_at_step = step;
    swarm.add();
    const auto differs = [&] {
        const auto same_step = [&](const auto& peer) { return peer->step() == step; };
        return std::ranges::all_of(swarm.peers, same_step) &&
               swarm.hashes_at_same_step().size() == 2;
    };
    EXPECT_TRUE(swarm.world.run_until(differs, 60s));
    TimePoint stepped = swarm.world.now();
    Duration longest{};
    std::uint64_t at = step;
    const auto mended = [&] {
        const TimePoint now = swarm.world.now();
        const std::uint64_t before = std::exchange(at, swarm.peers[0]->step());
        if (at != before) longest = std::max(longest, now - std::exchange(stepped, now));
        return at > step && swarm.hashes_at_same_step().size() == 1;
    };
    const bool done = swarm.world.run_until(mended, within);
    if (!done) swarm.print();
    EXPECT_TRUE(done);
    int resynced = 0;
    for (const auto& peer : swarm.peers) resynced += peer->events.counts["resynced"];
    EXPECT_EQ(resynced, 1);
    return longest;
}

// An invited run of these people, the first of whom organises it and may wait a minute for voters.
class PeopleOfARun {
  public:
    explicit PeopleOfARun(Swarm& swarm) : swarm_(swarm) {
        model_.run.access =
            run::AccessConfig{.authority = security::toy_peer_id(authority_seed).text()};
        model_.run.averaging.quorum_timeout = 60s;
        swarm.room.admit = [this](sim::SimNode& node, CollaborationOptions& options) {
            admit(node, options);
        };
    }
    Peer& add(const std::string& name) {
        names_.push_back(name);
        return swarm_.add(64, model_, 12.5e6);
    }
    void revoke(const std::string& name) {
        admission::Wish wish;
        wish.kind = admission::WishKind::revoke;
        wish.name = name;
        const std::string path = fmt::format("{}/1", admission::wishes_folder);
        runtime::Disk& disk = swarm_.world.node(0).runtime().disk;
        ASSERT_TRUE(disk.write_atomically(path, wire::encode(wish)));
    }

  private:
    static constexpr std::uint64_t authority_seed = 77;

    void admit(sim::SimNode& node, CollaborationOptions& options) {
        const Digest run = run::run_hash(model_.run);
        const std::string& name = names_.back();
        if (names_.size() == 1) {
            admission::BookIssuer::Right right;
            right.signer = std::make_shared<security::ToySigner>(authority_seed);
            right.own_name = name;
            auto issuer = *admission::BookIssuer::open(
                node.runtime().disk, node.clock(), verifier_, run, std::move(right));
            book_ = issuer.get();
            options.issuer = std::move(issuer);
            return;
        }
        const security::ToySigner authority(authority_seed);
        options.admitted.token = admission::encode_token(*admission::issue_token(
            authority, run, {.subject = name, .holder = node.id()}, node.clock().wall_now()));
        book_->met(name, node.id(), "somebody else");
    }

    Swarm& swarm_;
    Model model_ = small_model(elements);
    std::vector<std::string> names_;
    admission::BookIssuer* book_ = nullptr;
    security::ToyVerifier verifier_;
};

TEST(Collaboration, putting_out_half_of_the_voters_does_not_stop_the_run) {
    struct Case {
        std::vector<std::string> people;  // ben is revoked
    };
    for (const Case& one : {Case{{"olga", "ben"}},
                            Case{{"olga", "ben", "ana"}},
                            Case{{"olga", "ben", "ben", "ana"}}}) {
        Swarm swarm(61);
        PeopleOfARun people(swarm);
        for (const std::string& name : one.people) people.add(name);
        ASSERT_TRUE(
            swarm.world.run_until([&] { return swarm.all_at(8) && swarm.all_share(); }, 120s));
        people.revoke("ben");
        const std::uint64_t step = swarm.peers[0]->step();
        const auto go_on = [&] {
            for (std::size_t i = 0; i < one.people.size(); ++i)
                if (one.people[i] != "ben" && swarm.peers[i]->step() < step + 4) return false;
            return true;
        };
        EXPECT_TRUE(swarm.world.run_until(go_on, 25s)) << one.people.size() << " peers";
        EXPECT_EQ(swarm.peers.back()->hash() == swarm.peers[0]->hash(), one.people.size() > 2);
    }
}

TEST(Collaboration, a_peer_that_differs_repairs_itself_and_the_others_go_on) {
    Swarm swarm(2);
    const Duration longest = mend_the_one_that_differs(swarm, 4, 10s);
    EXPECT_LT(longest, 3s) << "a step takes one second, and a round's deadline is another";
    for (const auto& peer : swarm.peers) {
        EXPECT_FALSE(peer->events.counts.contains("branch_opened"));
        EXPECT_FALSE(peer->events.counts.contains("new_branch"));
    }
    const std::vector<std::string>& told = swarm.peers[3]->events.last;
    EXPECT_TRUE(std::ranges::any_of(told, [](const std::string& line) {
        return line.ends_with(" resynced loaded the group's state: ours was another than its");
    }));
    const std::uint64_t goal = swarm.peers[0]->step() + 5;
    EXPECT_TRUE(swarm.world.run_until([&] { return swarm.all_at(goal); }, 30s));
}

TEST(Collaboration, of_two_that_differ_one_takes_the_others_state) {
    Swarm swarm(3);
    (void)mend_the_one_that_differs(swarm, 2, 60s);
    const std::uint64_t goal = swarm.peers[0]->step() + 5;
    EXPECT_TRUE(swarm.world.run_until([&] { return swarm.all_at(goal); }, 30s));
    EXPECT_EQ(swarm.hashes_at_same_step().size(), 1u);
}

// In the log of who led, and by their steps in everybody's.
bool plans_tell_of_who_is_left_out(const Swarm& swarm) {
    const auto leaves_out = [](const Events::Planned& planned) {
        const std::string peers = planned.plan.left_out_peers.value_or("");
        return planned.plan.left_out > 0 && PeerId::from_text(peers.substr(0, peers.find(' ')));
    };
    const auto says_so = [](const auto& step) { return step.second.left_out > 0; };
    const auto planned = [&](const auto& peer) {
        return std::ranges::any_of(peer->events.plans, leaves_out);
    };
    const auto followed = [&](const auto& peer) {
        return std::ranges::any_of(peer->events.steps, says_so);
    };
    return std::ranges::any_of(swarm.peers, planned) && std::ranges::all_of(swarm.peers, followed);
}

// The two slow peers back off and try again each by itself, so that both rest at once only by
// chance: within these ten minutes in two seeds of three.
TEST(Collaboration, who_rests_is_back_when_one_would_train_alone) {
    Swarm swarm(2);
    for (int i = 0; i < 4; ++i) swarm.add(64, impatient_model(elements_many), i < 2 ? 2e6 : 4e4);
    const auto all_rest = [&] {
        return std::ranges::none_of(std::vector{2, 3}, [&](int i) {
            return swarm.peers[static_cast<std::size_t>(i)]->collaboration->may_compute();
        });
    };
    ASSERT_TRUE(swarm.world.run_until(all_rest, 600s));
    EXPECT_TRUE(plans_tell_of_who_is_left_out(swarm));
    swarm.kill(1);
    EXPECT_TRUE(swarm.world.run_until([&] { return !all_rest(); }, 10s));
}

// The certificate says whose samples are in a step, and who reduced how much of it.
TEST(Collaboration, a_step_tells_of_every_members_part_in_it) {
    Swarm swarm(3);
    for (int i = 0; i < 3; ++i) swarm.add(64);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(5); }, 60s));
    for (const auto& [number, step] : swarm.peers[0]->events.steps) {
        ASSERT_TRUE(step.shares);
        double samples = 0;
        double owned = 0;
        std::uint64_t contributors = 0;
        for (const events::StepShare& share : *step.shares) {
            samples += share.samples;
            owned += share.owned;
            if (share.samples > 0) ++contributors;
        }
        EXPECT_NEAR(samples, step.samples, 1e-6);
        EXPECT_NEAR(owned, 1, 1e-9);
        EXPECT_EQ(contributors, step.contributors);
    }
}

TEST(Collaboration, who_is_paused_keeps_up_brings_nothing_and_goes_on) {
    Swarm swarm(3);
    for (int i = 0; i < 3; ++i) swarm.add(64);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(3); }, 60s));
    Collaboration& paused = *swarm.peers[2]->collaboration;
    paused.set_paused(true);
    EXPECT_FALSE(paused.may_compute());
    swarm.world.run_for(5s);  // what it had computed is handed in
    EXPECT_EQ(paused.status().phase, membership::Phase::waiting);
    const std::uint64_t from = swarm.peers[0]->step();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(from + 5); }, 60s));
    const auto& steps = swarm.peers[2]->events.steps;
    for (std::uint64_t step = from + 2; step <= from + 5; ++step)
        EXPECT_EQ(steps.at(step).contributors, 2u) << step;
    EXPECT_EQ(swarm.peers[2]->events.counts["samples_dropped"], 0);
    paused.set_paused(false);
    const std::uint64_t resumed = swarm.peers[0]->step();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(resumed + 5); }, 60s));
    EXPECT_EQ(steps.at(resumed + 5).contributors, 3u);
    EXPECT_EQ(swarm.hashes_at_same_step().size(), 1u);
}

// Every owner refuses all that there is, its own as well. Frozen inputs would be refused again, and
// again, as fast as votes are written.
TEST(Collaboration, what_everybody_refuses_is_dropped_and_computed_anew) {
    for (const int peers : {1, 3}) {
        Swarm swarm(9);
        Model model = small_model(elements);
        model.run.averaging.norm_max = 1e-9;
        for (int i = 0; i < peers; ++i) swarm.add(64, model, 12.5e6);
        swarm.world.run_for(60s);
        for (const auto& peer : swarm.peers) {
            EXPECT_EQ(peer->step(), 0u);
            EXPECT_GT(peer->refused, 5);
            EXPECT_LE(peer->events.counts["round_failed"], 2 * peer->refused + 5);
            EXPECT_GE(peer->events.counts["samples_dropped"], peer->refused);
        }
    }
}

Model sparse_model(std::size_t count) {
    Model model = small_model(count);
    model.run.averaging.codec = codec::CodecId::sparse;
    return model;
}

void write_unsent(sim::SimNode& node, std::vector<float> numbers) {
    Bytes bytes(numbers.size() * sizeof(float));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    ASSERT_TRUE(node.disk().write_atomically("unsent", bytes));
}

TEST(Collaboration, what_was_not_sent_yet_and_is_refused_with_a_contribution_is_told) {
    Swarm swarm(9);
    Model model = sparse_model(elements);
    model.run.averaging.norm_max = 1e3;
    Peer& peer = swarm.add(64, model, 12.5e6);
    write_unsent(swarm.world.node(0), std::vector<float>(elements, 1e9f));
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(2); }, 60s));
    EXPECT_EQ(peer.refused, 1);
    EXPECT_EQ(peer.events.counts["unsent_lost"], 1);
}

// The others may make the step with what it sent: it must not send that again when it is back.
TEST(Collaboration, who_leaves_while_a_step_is_made_keeps_nothing_that_it_sent_for_it) {
    constexpr std::size_t many = 8192;
    Swarm swarm(11);
    for (int i = 0; i < 2; ++i) swarm.add(64, sparse_model(many), 12.5e6);
    std::vector<float> pending;
    int handed_in = 0;
    swarm.room.on_frozen = [&](const FrozenContribution& frozen) {
        if (frozen.input.input.is_empty()) return;
        pending = frozen.input.sum;
        ++handed_in;
    };
    Peer& leaver = swarm.add(64, sparse_model(many), 12.5e6);
    ASSERT_TRUE(swarm.world.run_until([&] { return handed_in == 4; }, 60s));
    swarm.world.run_task(leaver.collaboration->leave(0s));
    const Result<Bytes> file = swarm.world.node(2).disk().read("unsent");
    ASSERT_TRUE(file);
    std::vector<float> kept(many);
    ASSERT_EQ(file->size(), many * sizeof(float));
    std::memcpy(kept.data(), file->data(), file->size());
    const Bytes sent = codec::encode(codec::CodecId::sparse, pending);
    codec::accumulate_verified(codec::CodecId::sparse, sent, -1.0f, pending);
    EXPECT_EQ(kept, pending);
    EXPECT_EQ(leaver.events.counts["unsent_lost"], 1);
}

// Two steps in each tenth of a second.
TEST(Collaboration, however_fast_steps_are_nobodys_samples_are_doubted) {
    Swarm swarm(8);
    for (int i = 0; i < 2; ++i) swarm.add(3200);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(100); }, 60s));
    for (const auto& peer : swarm.peers) EXPECT_EQ(peer->events.counts["refused_input"], 0);
}

// Nine of ten micro-batches of 16 samples take 5 ms, and every tenth waits 400 ms: 360 samples a
// second, most of which come in bursts.
TEST(Collaboration, on_busy_machines_peers_tell_what_they_make_and_nobody_doubts_their_bursts) {
    Swarm swarm(8);
    for (int i = 0; i < 3; ++i) swarm.add(3200);
    for (const auto& peer : swarm.peers) peer->waits_every = 10;
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(100); }, 120s));
    for (const auto& peer : swarm.peers) {
        EXPECT_EQ(peer->events.counts["refused_input"], 0);
        EXPECT_NEAR(peer->collaboration->status().samples_per_s, 360, 120);
    }
}

// Two rounds show it; the third one's plan is for the line as it is now.
void expect_plans_to_follow_a_line_within_two_rounds(double samples_per_s) {
    Swarm swarm(7);
    for (int i = 0; i < 4; ++i) swarm.add(samples_per_s, elements_many, 2e6);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(5); }, 120s));
    EXPECT_NEAR(swarm.share_of(3), 0.25, 0.1);
    swarm.world.node(3).options().upload_bytes_per_s = 4e5;
    const std::uint64_t slowed = swarm.peers[3]->step();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(slowed + 3); }, 120s));
    const membership::Status status = swarm.peers[3]->collaboration->status();
    EXPECT_NEAR(status.upload_bytes_per_s, 4e5, 1e5);
    // Three fast lines and the slow one: the slow one has hardly time for its own contribution.
    EXPECT_LT(swarm.share_of(3), 0.1);
    swarm.world.node(3).options().upload_bytes_per_s = 2e6;
    const std::uint64_t mended = swarm.peers[3]->step();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(mended + 3); }, 120s));
    EXPECT_NEAR(swarm.share_of(3), 0.25, 0.1);
}

// Computing a batch takes a second, a round on these lines about as long, and 20 s with the fourth
// one as it is for a while.
void expect_a_slow_line_to_be_left_out_until_it_is_mended(double samples_per_s) {
    Swarm swarm(7);
    for (int i = 0; i < 4; ++i) swarm.add(samples_per_s, impatient_model(elements_many), 2e6);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(5); }, 120s));
    swarm.world.node(3).options().upload_bytes_per_s = 4e4;
    const std::uint64_t slowed = swarm.peers[0]->step();
    ASSERT_TRUE(
        swarm.world.run_until([&] { return swarm.peers[3]->events.counts["left_out"] > 0; }, 240s));
    EXPECT_LT(swarm.peers[0]->step(), slowed + 12);
    EXPECT_LT(swarm.duration_of_steps(6), 6 * 5s);
    EXPECT_GE(swarm.peers[3]->rests, 5);
    swarm.world.node(3).options().upload_bytes_per_s = 2e6;
    const auto samples = [&] { return swarm.peers[3]->collaboration->status().committed_samples; };
    const std::uint64_t before = samples();
    // The first rest, a trial, perhaps one more rest; where steps are short many more, as the
    // simulated line first carries, as slowly as it was, the megabytes that it was given while it
    // was slow. (A real one is given little ahead: TCP_NOTSENT_LOWAT.)
    const bool back = swarm.world.run_until([&] { return samples() > before + 256; }, 240s);
    if (!back) swarm.print();
    EXPECT_TRUE(back);
    const bool same =
        swarm.world.run_until([&] { return swarm.hashes_at_same_step().size() == 1; }, 10s);
    EXPECT_TRUE(same);
}

TEST(Collaboration, a_slow_line_is_left_out_until_it_is_mended) {
    expect_a_slow_line_to_be_left_out_until_it_is_mended(64);
}

TEST(Collaboration, a_slow_line_is_left_out_until_it_is_mended_though_nobody_is_ever_idle) {
    expect_a_slow_line_to_be_left_out_until_it_is_mended(640);
}

TEST(Collaboration, plans_follow_a_line_that_became_slower_or_faster_within_two_rounds) {
    expect_plans_to_follow_a_line_within_two_rounds(64);
}

TEST(Collaboration, plans_follow_a_line_within_two_rounds_though_nobody_is_ever_idle) {
    expect_plans_to_follow_a_line_within_two_rounds(640);  // a tenth of a second's computing
}

// Small messages do not wait behind whole chunks.
sim::WorldOptions small_windows() {
    sim::WorldOptions options;
    options.stream_window_bytes = 64 << 10;
    return options;
}

// The timeout of a minute is for the first answer; the state that follows may take longer.
TEST(Collaboration, a_newcomer_joins_though_its_host_needs_more_than_a_minute_to_send_the_state) {
    Swarm swarm(10, small_windows());
    const std::size_t count = 4 * elements_many;
    const double state_bytes = 8.0 * static_cast<double>(count);  // parameters and momentum
    swarm.add(0.5, count, state_bytes / 80);
    swarm.add(0.5, count);
    EXPECT_FALSE(swarm.world.run_until([&] { return swarm.peers[1]->running; }, 70s));
    EXPECT_TRUE(swarm.world.run_until([&] { return swarm.peers[1]->running; }, 300s))
        << swarm.peers[1]->start_error;
}

Task<Result<Bytes>> refuse_as_not_here(PeerId, Bytes) {
    co_return make_error(ErrorKind::not_found, "that state is not here (any more)");
}

// The error is peer_gone: to a program, not_found means that this machine lacks something.
TEST(Collaboration, a_newcomer_that_nobody_gives_a_state_is_told_that_none_could_be_reached) {
    Swarm swarm(10);
    swarm.add(8);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(1); }, 120s));
    p2p::Host& host = swarm.world.node(0).host();
    host.remove_handler(state::manifest_method);
    host.handle_call(state::manifest_method, refuse_as_not_here);
    const Peer& late = swarm.add(8);
    ASSERT_TRUE(swarm.world.run_until([&] { return !late.start_error.empty(); }, 700s));
    EXPECT_NE(late.start_error.find("no provider is left"), std::string::npos) << late.start_error;
    EXPECT_EQ(late.start_error_kind, ErrorKind::peer_gone);
}

// Six come at once to two whose lines take a minute for a round: what they missed while their state
// came is as much as these lines carry in a minute again.
TEST(Collaboration, newcomers_of_a_group_with_slow_lines_catch_up) {
    Swarm swarm(11, small_windows());
    const std::size_t count = 4 * elements_many;
    const double line = 4.0 * static_cast<double>(count) / 16;
    for (int i = 0; i < 2; ++i) swarm.add(8, count, line);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(1); }, 600s));
    for (int i = 0; i < 6; ++i) swarm.add(8, count, line);
    const bool done = swarm.world.run_until([&] { return swarm.all_share(); }, 3000s);
    if (!done) swarm.print();
    EXPECT_TRUE(done);
    for (const auto& peer : swarm.peers) EXPECT_EQ(peer->events.counts["state_differs"], 0);
}

// A round takes longer than a quorum is waited for, three times. Who comes while one is under way
// is in none for as long, and has never seen one: no reason to take the others for lost.
TEST(Collaboration, newcomers_wait_for_the_end_of_a_long_round) {
    for (const Duration later : {0s, 15s, 30s, 45s}) {
        Swarm swarm(11, small_windows());
        const std::size_t count = 4 * elements_many;
        const double line = 4.0 * static_cast<double>(count) / 20;
        for (int i = 0; i < 2; ++i) swarm.add(4, count, line);
        ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(1); }, 900s));
        swarm.world.run_for(later);
        const Peer& late = swarm.add(4, count, line);
        ASSERT_TRUE(swarm.world.run_until([&] { return late.running; }, 900s)) << late.start_error;
        const std::uint64_t step = swarm.peers[0]->step();
        EXPECT_TRUE(swarm.world.run_until([&] { return swarm.all_at(step + 3); }, 600s));
        for (const auto& peer : swarm.peers)
            EXPECT_EQ(peer->events.counts["new_branch"], 0) << to_seconds(later);
        EXPECT_GT(late.collaboration->status().committed_samples, 0u);
    }
}

// An average takes its line so many seconds, a step of its own fewer: what it made alone they would
// never have, if it did not wait for them.
void expect_newcomers_to_share(std::size_t newcomers,
                               double samples_per_s,
                               double average_s,
                               std::size_t count,
                               Duration within) {
    Swarm swarm(11, small_windows());
    const double line = 4.0 * static_cast<double>(count) / average_s;
    swarm.add(samples_per_s, count, line);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(3); }, 100s));
    for (std::size_t i = 0; i < newcomers; ++i) swarm.add(samples_per_s, count, line);
    const TimePoint begun = swarm.world.now();
    EXPECT_TRUE(swarm.world.run_until([&] { return swarm.all_share(); }, within));
    fmt::print(
        "{} newcomers share after {:.0f} s\n", newcomers, to_seconds(swarm.world.now() - begun));
    swarm.world.run_for(120s);
    for (const auto& peer : swarm.peers) EXPECT_EQ(peer->events.counts["new_branch"], 0);
}

TEST(Collaboration, newcomers_catch_up_with_one_who_trains_alone_faster_than_its_line) {
    expect_newcomers_to_share(2, 32, 20, 4 * elements_many, 300s);
}

TEST(Collaboration, newcomers_catch_up_with_one_who_trains_alone_much_faster_than_its_line) {
    expect_newcomers_to_share(2, 64, 20, 4 * elements_many, 300s);
    expect_newcomers_to_share(2, 64, 20, elements_many, 500s);
}

// Newcomers give each other state and averages: the host's line alone would take seven minutes for
// that.
TEST(Collaboration, ten_newcomers_come_nearly_as_soon_as_one) {
    expect_newcomers_to_share(10, 25.6, 8, 4 * elements_many, 400s);
}

// Half of what a trainer sends when all own parts are averages, which nobody tells it about.
TEST(Collaboration,
     a_trainer_that_owns_parts_sees_its_whole_line_and_two_rounds_later_a_slower_one) {
    Swarm swarm(9);
    for (int i = 0; i < 4; ++i) swarm.add(64, elements_many, 4e5);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(5); }, 240s));
    for (const auto& peer : swarm.peers)
        EXPECT_NEAR(peer->collaboration->status().upload_bytes_per_s, 4e5, 4e4);
    swarm.world.node(2).options().upload_bytes_per_s = 1e5;
    const std::uint64_t slowed = swarm.peers[2]->step();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(slowed + 3); }, 240s));
    EXPECT_LT(swarm.peers[2]->collaboration->status().upload_bytes_per_s, 2e5);
}

TEST(Collaboration, an_aggregator_takes_parts_from_slow_lines_and_neither_votes_nor_holds_state) {
    Swarm swarm(8);
    for (int i = 0; i < 4; ++i) swarm.add(64, elements_many, 4e5);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(3); }, 240s));
    const Duration alone = swarm.duration_of_steps(4);
    Helper& helper = swarm.add_helper(elements_many);
    const std::uint64_t joined = swarm.peers[0]->step();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(joined + 6); }, 240s));
    const Duration helped = swarm.duration_of_steps(4);
    fmt::print("4 steps: {:.2f} s without, {:.2f} s with an aggregator\n",
               to_seconds(alone),
               to_seconds(helped));
    // A second of computing, then 3 s of averaging alone, 2 s with a line that is no limit.
    EXPECT_LT(helped, alone * 0.85);
    // Four trainers of equal lines: without it each owns a quarter.
    EXPECT_GT(swarm.share_of(swarm.helper_node->id()), 0.5);
    const averaging::AggregatorWork work = helper.collaboration->assistance();
    EXPECT_GE(work.rounds, 3u);
    EXPECT_GT(work.memory_most, 0u);
    const membership::Status status = helper.collaboration->status();
    EXPECT_EQ(status.role, membership::Role::aggregator);
    EXPECT_GE(status.step, joined + 5);
    EXPECT_TRUE(status.state_hash.is_zero());
    EXPECT_EQ(helper.collaboration->state(), nullptr);
    EXPECT_FALSE(recent_voters(*swarm.peers[1]->collaboration).contains(swarm.helper_node->id()));
    const std::vector<membership::Status> seen = swarm.peers[2]->collaboration->peers();
    EXPECT_EQ(std::ranges::count(seen, membership::Role::aggregator, &membership::Status::role), 1);
    EXPECT_TRUE(
        swarm.world.run_until([&] { return swarm.hashes_at_same_step().size() == 1; }, 20s));
}

// With one that does not know the tensors: only plans tell it of codecs.
TEST(Collaboration, peers_with_adaptive_codecs_stay_identical_whoever_reduces) {
    Swarm swarm(12);
    const Model model = adaptive_model();
    for (int i = 0; i < 3; ++i) swarm.add(64, model, 4e5);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(3); }, 240s));
    const auto first = swarm.peers[1]->collaboration->state();
    Helper& helper = swarm.add_helper(model.run);
    const std::uint64_t joined = swarm.peers[0]->step();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(joined + 8); }, 240s));
    EXPECT_GE(helper.collaboration->assistance().rounds, 3u);
    EXPECT_EQ(helper.events.counts["refused_message"], 0);
    const consensus::RoundPlan plan = swarm.newest_plan();
    const std::uint32_t aggregator = static_cast<std::uint32_t>(
        std::ranges::find(plan.members, true, &consensus::PlanMember::aggregator) -
        plan.members.begin());
    std::set<std::uint32_t> codecs_of_aggregator;
    for (const consensus::PlanPart& part : plan.parts) {
        const auto ranges = run::vector_codecs(model.run.averaging, model.layout);
        const bool fits = std::ranges::any_of(ranges, [&](const codec::CodecRange& range) {
            return part.offset >= range.offset && part.range().end() <= range.end() &&
                   plan.codec_of(part) == static_cast<std::uint32_t>(range.codec);
        });
        EXPECT_TRUE(fits) << part.offset;
        if (part.owner == aggregator) codecs_of_aggregator.insert(plan.codec_of(part));
    }
    EXPECT_EQ(codecs_of_aggregator.size(), 2u);
    ASSERT_TRUE(
        swarm.world.run_until([&] { return swarm.hashes_at_same_step().size() == 1; }, 20s));
    const auto moved = [&](std::size_t element) {
        const auto last = swarm.peers[1]->collaboration->state();
        return replica::parameters_of(*last)[element] != replica::parameters_of(*first)[element];
    };
    for (const std::size_t element : {1800u, 70'200u, 100'080u, 178'020u})  // of each tensor
        EXPECT_TRUE(moved(element)) << element;
}

// An aggregator's offer is for one step: if it waited between hearing of a step and offering for
// it, steps of a quarter of a second would always be ahead of it.
TEST(Collaboration, an_aggregator_keeps_up_with_short_steps) {
    Swarm swarm(10);
    for (int i = 0; i < 3; ++i) swarm.add(640);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(20); }, 240s));
    const Duration alone = swarm.duration_of_steps(20);
    Helper& helper = swarm.add_helper(elements);
    ASSERT_TRUE(
        swarm.world.run_until([&] { return helper.collaboration->assistance().rounds >= 1; }, 60s));
    const std::uint64_t joined = swarm.peers[0]->step();
    const std::uint64_t rounds = helper.collaboration->assistance().rounds;
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(joined + 40); }, 120s));
    const Duration helped = swarm.duration_of_steps(20);
    fmt::print("20 steps: {:.2f} s without, {:.2f} s with an aggregator, in {} rounds of 40\n",
               to_seconds(alone),
               to_seconds(helped),
               helper.collaboration->assistance().rounds - rounds);
    EXPECT_GE(helper.collaboration->assistance().rounds - rounds, 20u);
    // Steps are as long as before: computing takes most of their time, and nobody cuts it short.
    EXPECT_NEAR(to_seconds(helped), to_seconds(alone), 0.1 * to_seconds(alone));
    for (int i = 0; i < 40; ++i) {
        swarm.world.run_for(137ms);
        EXPECT_GE(helper.collaboration->status().step + 2, swarm.peers[0]->step()) << i;
    }
}

TEST(Collaboration, an_aggregator_that_dies_costs_no_step_and_no_sample) {
    for (int i = 0; i < 8; ++i) {
        Swarm swarm(20 + static_cast<std::uint64_t>(i));
        for (int k = 0; k < 3; ++k) swarm.add(64, elements_many, 4e5);
        ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(2); }, 240s));
        Helper& helper = swarm.add_helper(elements_many);
        ASSERT_TRUE(swarm.world.run_until(
            [&] { return helper.collaboration->assistance().rounds >= 1; }, 240s));
        // Somewhere in the middle of its next round.
        ASSERT_TRUE(swarm.world.run_until(
            [&] { return helper.collaboration->status().phase == membership::Phase::averaging; },
            60s));
        swarm.world.run_for(i * 150ms);
        // Slow lines, not measured yet: the first rounds were too short for them.
        std::vector<double> expired;
        for (const auto& peer : swarm.peers)
            expired.push_back(peer->collaboration->accounts().samples_expired);
        swarm.kill_helper();
        const std::uint64_t died = swarm.peers[0]->step();
        EXPECT_TRUE(swarm.world.run_until([&] { return swarm.all_at(died + 3); }, 60s));
        for (std::size_t k = 0; k < swarm.peers.size(); ++k) {
            const auto& peer = swarm.peers[k];
            EXPECT_EQ(peer->collaboration->accounts().samples_expired, expired[k]) << i;
            EXPECT_EQ(peer->collaboration->accounts().branches, 0u) << i;
            EXPECT_EQ(peer->events.counts["round_failed"], 0) << i;
        }
        EXPECT_TRUE(
            swarm.world.run_until([&] { return swarm.hashes_at_same_step().size() == 1; }, 20s));
    }
}

TEST(Collaboration, an_aggregator_leaves_in_order_between_rounds) {
    Swarm swarm(9);
    for (int i = 0; i < 3; ++i) swarm.add(64, elements_many, 4e5);
    Helper& helper = swarm.add_helper(elements_many);
    ASSERT_TRUE(swarm.world.run_until(
        [&] { return helper.collaboration->assistance().rounds >= 2; }, 240s));
    swarm.world.run_task(helper.collaboration->leave(10s));
    swarm.world.run_task(swarm.helper_node->host().stop());
    const int repairs = swarm.peers[0]->events.counts["repair"];
    const std::uint64_t left = swarm.peers[0]->step();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(left + 3); }, 60s));
    EXPECT_EQ(swarm.peers[0]->events.counts["peer_left"], 1);
    EXPECT_EQ(swarm.peers[0]->events.counts["peer_lost"], 0);
    EXPECT_EQ(swarm.peers[0]->events.counts["repair"], repairs);
    EXPECT_EQ(swarm.share_of(swarm.helper_node->id()), 0);
}

Task<void> call_with_nonsense(p2p::Host& host, PeerId to, std::string method, TimePoint deadline) {
    Bytes nonsense{0xff, 0xff, 0xff};
    const auto answer = co_await host.call(to, method, std::move(nonsense), deadline);
    EXPECT_FALSE(answer) << method;
}

TEST(Collaboration, an_aggregator_names_the_peer_whose_messages_cannot_be_read) {
    Swarm swarm(12);
    for (int i = 0; i < 3; ++i) swarm.add();
    Helper& helper = swarm.add_helper(elements);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(3); }, 60s));
    EXPECT_EQ(helper.events.counts["refused_message"], 0);
    const TimePoint deadline = swarm.world.now() + 5s;
    p2p::Host& host = swarm.world.node(1).host();
    for (const char* method : {averaging::plan_method, allreduce::repair_method})
        swarm.world.run_task(call_with_nonsense(host, swarm.helper_node->id(), method, deadline));
    EXPECT_EQ(helper.events.counts["refused_message"], 2);
}

TEST(Collaboration, a_killed_peer_costs_the_others_little) {
    Swarm swarm(3);
    for (int i = 0; i < 4; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(4); }, 60s));
    swarm.kill(0);
    const bool done = swarm.world.run_until([&] { return swarm.all_at(10); }, 30s);
    if (!done) swarm.print();
    EXPECT_TRUE(done);
    EXPECT_TRUE(
        swarm.world.run_until([&] { return swarm.hashes_at_same_step().size() == 1; }, 10s));
}

// While it slept the others went on. From then on it has each average later than they, by the round
// trips of its long way; in no round it would be later still.
TEST(Collaboration, a_far_peer_that_slept_is_in_every_round_again) {
    Swarm swarm(12);
    for (int i = 0; i < 4; ++i) swarm.add(140, elements_many);
    sim::LinkOptions far;
    far.latency = 100ms;
    for (std::size_t i = 0; i < 3; ++i)
        swarm.world.set_link(swarm.world.node(i), swarm.world.node(3), far);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(6); }, 120s));
    swarm.world.node(3).freeze_for(2500ms);
    swarm.world.run_for(3s);
    const std::uint64_t woken = swarm.peers[0]->step();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(woken + 4); }, 60s));
    const std::uint64_t before = swarm.peers[3]->collaboration->status().committed_samples;
    const std::uint64_t from = swarm.peers[3]->step();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(from + 8); }, 60s));
    const std::uint64_t samples =
        swarm.peers[3]->collaboration->status().committed_samples - before;
    // A quarter of a target of 256.
    EXPECT_GE(samples, 8u * 64 / 2) << from;
}

// Answers reach them too late: they take every leader for dead, and lead themselves. Where voters
// promised them their votes in the middle of a round, there were 17 steps.
TEST(Collaboration, peers_that_everything_reaches_late_do_not_outbid_the_rounds_of_the_others) {
    Swarm swarm(2);
    for (int i = 0; i < 9; ++i) swarm.add(64, elements_many, 6e5);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(8); }, 120s));
    for (const std::size_t late : {6, 7, 8}) swarm.world.node(late).set_weather(0, 1s);
    const std::uint64_t from = swarm.peers[0]->step();
    swarm.world.run_for(90s);
    EXPECT_GE(swarm.peers[0]->step() - from, 20u);
}

// Rounds here take seconds, and who awaits averages looks only now and then whether the leader
// lives.
TEST(Collaboration, a_leader_that_is_killed_in_a_long_round_is_replaced_at_once) {
    Swarm swarm(3);
    for (int i = 0; i < 5; ++i) swarm.add(64, elements_many, 6e5);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(6); }, 120s));
    std::optional<std::size_t> leader;
    swarm.world.on_send([&leader](const sim::World::Outgoing& sent) {
        if (sent.method == averaging::plan_method && !sent.is_answer) leader = sent.from;
    });
    const auto planned = [&leader] { return leader.has_value(); };
    ASSERT_TRUE(swarm.world.run_until(planned, 60s));
    swarm.world.run_for(500ms);
    const std::size_t killed = *std::exchange(leader, std::nullopt);
    const std::uint64_t step = swarm.peers[(killed + 1) % 5]->step();
    swarm.world.node(killed).kill();
    const TimePoint at = swarm.world.now();
    ASSERT_TRUE(swarm.world.run_until(planned, 60s));
    const double seconds = to_seconds(swarm.world.now() - at);
    swarm.kill(killed);
    EXPECT_EQ(swarm.peers[(killed + 1) % 5]->step(), step) << "the round had ended";
    EXPECT_LT(seconds, 0.3) << "without a leader";
}

// The surplus member is told so once, goes on with the others' states, blames nobody, and has its
// place when one of them is gone.
TEST(Collaboration, one_more_than_a_round_has_room_for_is_told_so_and_keeps_up) {
    Swarm swarm(17);
    swarm.room.members_max = 3;
    for (int i = 0; i < 3; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(3); }, 60s));
    Peer& left_out = swarm.add();
    const Duration before = swarm.duration_of_steps(6);
    const Duration after = swarm.duration_of_steps(6);
    EXPECT_LT(after, before + 2s) << "nobody waits for it";
    std::map<std::string, int>& events = left_out.events.counts;
    EXPECT_EQ(events["round_full"], 1);
    EXPECT_EQ(events["leader_suspected"], 0);
    EXPECT_EQ(events["new_branch"], 0);
    EXPECT_EQ(left_out.collaboration->status().committed_samples, 0u);
    int announcements = 0;
    swarm.world.on_send([&](const sim::World::Outgoing& sent) {
        const bool asks = sent.method == averaging::announce_method && !sent.is_answer;
        if (asks && sent.from == 3) ++announcements;
    });
    const std::uint64_t steps = left_out.step();
    (void)swarm.duration_of_steps(8);
    EXPECT_GE(left_out.step(), steps + 7);
    EXPECT_LE(announcements, 16);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(swarm.peers[i]->events.counts["leader_suspected"], 0);
        EXPECT_EQ(swarm.peers[i]->events.counts["refused_input"], 0);
    }
    EXPECT_FALSE(recent_voters(*swarm.peers[0]->collaboration).contains(swarm.world.node(3).id()));
    swarm.kill(1);
    const auto counts = [&] { return left_out.collaboration->status().committed_samples > 0; };
    EXPECT_TRUE(swarm.world.run_until(counts, 60s));
    EXPECT_EQ(events["round_full"], 1);
    EXPECT_TRUE(
        swarm.world.run_until([&] { return swarm.hashes_at_same_step().size() == 1; }, 10s));
}

TEST(Collaboration, one_that_comes_when_nobody_can_know_more_peers_is_told_so) {
    Swarm swarm(18);
    swarm.room.peers_max = 2;
    for (int i = 0; i < 3; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(2); }, 60s));
    Peer& late = swarm.add();
    int hellos = 0;
    swarm.world.on_send([&](const sim::World::Outgoing& sent) {
        if (sent.method == membership::hello_method && !sent.is_answer) ++hellos;
    });
    ASSERT_TRUE(swarm.world.run_until([&] { return !late.start_error.empty(); }, 120s));
    EXPECT_NE(late.start_error.find("this run is full: 2 peers"), std::string::npos)
        << late.start_error;
    EXPECT_LE(hellos, 3 * 60 * 4) << "three others, a minute, each pause 300 ms";
    const std::uint64_t step = swarm.peers[0]->step();
    EXPECT_TRUE(swarm.world.run_until([&] { return swarm.peers[0]->step() >= step + 3; }, 20s));
}

// The peer that was away may lead next, and judges the others by when it handed in itself, not by
// when it heard of the step; what it computed meanwhile is its own.
TEST(Collaboration, nobody_is_refused_its_samples_because_somebody_was_away_for_most_of_a_step) {
    for (std::size_t away = 0; away < 3; ++away)
        for (const bool frozen : {false, true}) {
            Swarm swarm(30 + away);
            for (int i = 0; i < 3; ++i) swarm.add(4);  // a step takes twenty seconds
            ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(3); }, 240s));
            const auto committed = [&](std::size_t i) {
                return swarm.peers[i]->collaboration->status().committed_samples;
            };
            const std::uint64_t before = committed(away);
            std::vector<std::string> others{"p0", "p1", "p2"};
            const std::string name = others[away];
            std::erase(others, name);
            if (frozen)
                swarm.world.node(away).freeze_for(15s);
            else
                swarm.world.partition({{name}, others});
            swarm.world.run_for(15s);
            swarm.world.heal();
            (void)swarm.duration_of_steps(3);
            EXPECT_GE(committed(away), before + 2 * 64) << name;
            for (const auto& peer : swarm.peers) EXPECT_EQ(peer->events.counts["refused_input"], 0);
        }
}

TEST(Collaboration, a_line_that_is_slower_down_than_up_is_known_as_that) {
    Swarm swarm(19);
    const std::size_t count = 4 * elements_many;  // as much as is worth a probe
    for (int i = 0; i < 5; ++i) swarm.add(8, count, 4e6);
    swarm.world.node(4).options().download_bytes_per_s = 1e6;
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(10); }, 240s));
    const membership::Status slow = swarm.peers[4]->collaboration->status();
    EXPECT_NEAR(slow.upload_bytes_per_s, 4e6, 1e6);
    EXPECT_NEAR(slow.download_bytes_per_s, 1e6, 0.3e6);
    EXPECT_GT(swarm.peers[1]->collaboration->status().download_bytes_per_s, 2.5e6);
}

TEST(Collaboration, half_of_two_dies_and_the_other_goes_on_as_a_branch) {
    Swarm swarm(4);
    for (int i = 0; i < 2; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(4); }, 60s));
    swarm.kill(0);
    const bool done = swarm.world.run_until([&] { return swarm.all_at(8); }, 60s);
    if (!done) swarm.print();
    EXPECT_TRUE(done);
    EXPECT_EQ(swarm.peers[1]->events.counts["new_branch"], 1);
}

TEST(Collaboration, what_was_handed_in_when_the_majority_died_is_in_the_branchs_first_step) {
    Swarm swarm(4);
    for (int i = 0; i < 2; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(4); }, 60s));
    const Peer& left = *swarm.peers[1];
    const auto is = [&](membership::Phase phase) {
        return left.collaboration->status().phase == phase;
    };
    swarm.kill(0);
    ASSERT_TRUE(swarm.world.run_until([&] { return is(membership::Phase::averaging); }, 60s));
    ASSERT_TRUE(swarm.world.run_until(
        [&] { return swarm.all_at(8) && is(membership::Phase::computing); }, 60s));
    const membership::Status status = left.collaboration->status();
    EXPECT_EQ(left.computed, status.committed_samples + status.samples);
}

// The leader answers every announcement, leads whenever it is its turn, and begins no round.
TEST(Collaboration, a_leader_that_answers_and_brings_no_round_about_is_passed_over) {
    using averaging::AnnounceResult;
    for (const AnnounceResult says : {AnnounceResult::accepted,
                                      AnnounceResult::full,
                                      AnnounceResult::i_am_behind,
                                      AnnounceResult::you_are_behind}) {
        Swarm swarm(21);
        for (int i = 0; i < 4; ++i) swarm.add();
        ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(3); }, 60s));
        swarm.world.on_send([&](const sim::World::Outgoing& sent) {
            if (sent.from != 2) return;
            const bool announce = sent.method == averaging::announce_method;
            if (!announce && sent.method.starts_with("/dedloc/round/")) sent.payload.clear();
            if (!announce || !sent.is_answer) return;
            averaging::AnnounceReply reply;
            reply.result = says;
            sent.payload = wire::encode(reply);
        });
        const bool done = swarm.world.run_until(
            [&] { return swarm.peers[0]->step() >= 8 && swarm.peers[1]->step() >= 8; }, 240s);
        if (!done) swarm.print();
        EXPECT_TRUE(done) << static_cast<int>(says);
        EXPECT_FALSE(swarm.peers[0]->events.counts.contains("new_branch"));
    }
}

TEST(Collaboration, a_status_that_tells_no_numbers_stops_nobody) {
    Swarm swarm(4);
    for (int i = 0; i < 3; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(2); }, 60s));
    swarm.world.on_send([&](const sim::World::Outgoing& sent) {
        if (sent.from != 2 || sent.method != membership::status_method) return;
        if (sent.is_answer) return sent.payload.clear();  // its honest one
        auto message = wire::decode<membership::SignedStatus>(sent.payload);
        auto status = message ? wire::decode<membership::Status>(message->payload)
                              : Result<membership::Status>(membership::Status{});
        if (!message || !status) return;
        status->samples_per_s = status->micro_batch_s = std::numeric_limits<double>::quiet_NaN();
        status->branch_samples = std::numeric_limits<double>::infinity();
        status->accuracy = 7;
        message->payload = wire::encode(*status);
        message->signature = swarm.world.node(2).signer().sign("dedloc-status", message->payload);
        sent.payload = wire::encode(*message);
    });
    EXPECT_TRUE(swarm.world.run_until([&] { return swarm.all_at(8); }, 60s));
    for (const membership::Status& told : swarm.peers[0]->collaboration->peers()) {
        EXPECT_TRUE(std::isfinite(told.samples_per_s));
        EXPECT_LE(told.accuracy, 1.0);
    }
}

// The host is gone for good, and nobody else's address is in a join string.
TEST(Collaboration, peers_that_were_out_of_reach_for_minutes_meet_again) {
    Swarm swarm(5);
    swarm.bootstrap_most = 1;
    for (int i = 0; i < 3; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(4); }, 60s));
    swarm.kill(0);
    swarm.world.partition({{"p1"}, {"p2"}});
    swarm.world.run_for(10min);
    swarm.world.heal();
    const bool done = swarm.world.run_until(
        [&] {
            return swarm.peers[1]->collaboration->branch() ==
                       swarm.peers[2]->collaboration->branch() &&
                   !swarm.peers[1]->collaboration->peers().empty();
        },
        60s);
    if (!done) swarm.print();
    EXPECT_TRUE(done);
}

// The status has a megabyte, told by a member that everybody believes.
TEST(Collaboration, a_long_status_is_not_passed_on_to_newcomers) {
    Swarm swarm(4);
    for (int i = 0; i < 3; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(2); }, 60s));
    std::size_t longest = 0;  // of what the others send
    swarm.world.on_send([&](const sim::World::Outgoing& sent) {
        if (sent.from != 2 && sent.method == membership::prove_method)
            longest = std::max(longest, sent.payload.size());
        if (sent.from != 2 || sent.method != membership::status_method) return;
        if (sent.is_answer) return sent.payload.clear();  // its honest one
        auto message = wire::decode<membership::SignedStatus>(sent.payload);
        auto status = message ? wire::decode<membership::Status>(message->payload)
                              : Result<membership::Status>(membership::Status{});
        if (!message || !status) return;
        status->name.assign(1u << 20, 'x');
        message->payload = wire::encode(*status);
        message->signature = swarm.world.node(2).signer().sign("dedloc-status", message->payload);
        sent.payload = wire::encode(*message);
    });
    swarm.world.run_for(2s);
    for (const membership::Status& told : swarm.peers[0]->collaboration->peers())
        EXPECT_LE(told.name.size(), 32u);
    swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.peers[3]->running; }, 60s));
    EXPECT_GT(longest, 0u);
    EXPECT_LT(longest, 100'000u);
}

// The words of a hello, and what brings statuses (membership.cpp).
struct HelloWords {
    Digest run;
    Bytes nonce;
    std::vector<Bytes> statuses;
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.run);
        visit(2, self.nonce);
        visit(5, self.statuses, membership::peers_max);
    }
};

// Strangers, each with a name and a signature of its own: one member can invent as many as it
// likes.
TEST(Collaboration, who_is_only_heard_of_takes_no_members_place) {
    Swarm swarm(4);
    swarm.room.peers_max = 4;
    for (int i = 0; i < 2; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(1); }, 60s));
    std::uint64_t strangers = 0;
    Bytes own_status;  // signed, as the liar pushes it
    swarm.world.on_send([&](const sim::World::Outgoing& sent) {
        if (sent.from != 1 || sent.method != membership::status_method) return;
        if (!sent.is_answer) {
            own_status = sent.payload;
            return;
        }
        auto reply = wire::decode<HelloWords>(sent.payload);
        if (!reply || own_status.empty()) return;
        const security::ToySigner stranger(1000 + ++strangers);
        membership::Status status;
        status.peer = stranger.id();
        membership::SignedStatus message;
        message.payload = wire::encode(status);
        message.signature = stranger.sign("dedloc-status", message.payload);
        reply->statuses = {own_status, wire::encode(message)};
        sent.payload = wire::encode(*reply);
    });
    ASSERT_TRUE(swarm.world.run_until([&] { return strangers > 8; }, 60s));
    swarm.add();
    const PeerId& late = swarm.world.node(2).id();
    const auto is_known = [&] {
        return std::ranges::any_of(
            swarm.peers[0]->collaboration->peers(),
            [&](const membership::Status& status) { return status.peer == late; });
    };
    EXPECT_TRUE(swarm.world.run_until(is_known, 30s));
}

// Two make steps without the third, and die for good when it has heard of these steps and before it
// has got their averages: it knows of steps that nobody can make again.
TEST(Collaboration, who_has_the_only_state_goes_on_from_it_when_the_newer_ones_are_lost) {
    Swarm swarm(16);
    for (int i = 0; i < 3; ++i) swarm.add();
    swarm.add_helper(elements);  // it tells of the lost steps for as long as it lives
    Peer& left = *swarm.peers[0];
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(3); }, 60s));
    swarm.world.partition({{"p0"}, {"p1", "p2", "helper"}});
    const std::uint64_t step = left.step();
    const auto ahead = [&] {
        return swarm.peers[1]->step() > step && swarm.peers[2]->step() > step;
    };
    ASSERT_TRUE(swarm.world.run_until(ahead, 10s));
    const std::uint64_t certificates = left.collaboration->accounts().certificates;
    swarm.world.node(0).set_weather(0, 400ms);
    swarm.world.heal();
    ASSERT_TRUE(swarm.world.run_until(
        [&] { return left.collaboration->accounts().certificates > certificates; }, 10s));
    for (const std::size_t i : {1, 2}) swarm.world.node(i).kill();
    for (const std::size_t i : {1, 2}) swarm.kill(i);
    swarm.world.node(0).set_weather(0, 0ms);
    swarm.add();
    const bool done = swarm.world.run_until([&] { return swarm.all_at(step + 4); }, 60s);
    if (!done) swarm.print();
    EXPECT_TRUE(done);
    EXPECT_GE(left.events.counts["replay_failed"], 1);
    EXPECT_EQ(left.events.counts["branch_opened"], 1);
    EXPECT_GE(swarm.peers[3]->steps, 2);
}

TEST(Collaboration, what_is_not_finite_is_left_out_counted_and_told_once) {
    Swarm swarm(7);
    for (int i = 0; i < 3; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(2); }, 60s));
    const std::uint64_t from = swarm.peers[1]->step();
    swarm.peers[1]->bad_micro_batches = 3;
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(from + 6); }, 60s));
    EXPECT_EQ(swarm.peers[1]->bad_micro_batches, 0);
    EXPECT_EQ(swarm.peers[1]->collaboration->accounts().samples_not_finite, 48u);
    EXPECT_GE(swarm.peers[1]->events.counts["not_finite"], 1);
    EXPECT_LE(swarm.peers[1]->events.counts["not_finite"], 2);  // the first, and then the rest
    EXPECT_EQ(swarm.peers[0]->events.counts["not_finite"], 0);
    EXPECT_TRUE(
        swarm.world.run_until([&] { return swarm.hashes_at_same_step().size() == 1; }, 10s));
}

// All numbers of a state stay finite whatever the learning rate; the step counts on.
TEST(Collaboration, a_step_that_would_leave_the_finite_numbers_keeps_the_state) {
    run::RunFile run = small_run();
    run.optimizer.momentum = 0;
    const run::Layout layout = small_model(elements).layout;
    std::vector<float> start(elements, 1.0f);
    const auto before = *replica::initial_state(run, layout, start, {});
    consensus::Decision decision;
    std::vector<float> average(elements, 1.0f);
    average[7] = 3e38f;
    replica::StepFacts facts;
    run.optimizer.schedule.peak = 1e-39;
    const auto small = replica::next_state(run, layout, *before, decision, average, &facts);
    ASSERT_TRUE(small);
    EXPECT_FALSE(facts.kept_back);
    EXPECT_NE(replica::parameters_of(**small)[7], 1.0f);
    run.optimizer.schedule.peak = 1000;
    const auto large = replica::next_state(run, layout, *before, decision, average, &facts);
    ASSERT_TRUE(large);
    EXPECT_TRUE(facts.kept_back);
    EXPECT_EQ(facts.optimizer.learning_rate, 1000);
    EXPECT_EQ((*large)->step(), before->step() + 1);
    EXPECT_EQ(std::vector<float>(replica::parameters_of(**large).begin(),
                                 replica::parameters_of(**large).end()),
              start);
}

TEST(Collaboration, a_join_string_names_its_giver_first_and_some_of_the_others) {
    Swarm swarm(12);
    for (int i = 0; i < 12; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(2); }, 60s));
    const auto join = run::parse_join_string(swarm.peers[3]->collaboration->join_string());
    ASSERT_TRUE(join);
    std::set<std::string> peers;
    for (const std::string& address : join->addresses)
        peers.insert(run::split_peer_address(address)->peer.text());
    EXPECT_EQ(peers.size(), 8u);
    EXPECT_EQ(run::split_peer_address(join->addresses.front())->peer, swarm.world.node(3).id());
}

// The slow ones' micro-batches take two seconds, the fast ones' a quarter.
TEST(Collaboration, a_batch_is_near_its_target_where_micro_batches_take_different_times) {
    Swarm swarm(12);
    for (int i = 0; i < 2; ++i) swarm.add(60);
    for (int i = 0; i < 3; ++i) swarm.add(7);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(4); }, 120s));
    const membership::Status before = swarm.peers[0]->collaboration->status();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(before.step + 20); }, 240s));
    const membership::Status after = swarm.peers[0]->collaboration->status();
    const double batch = (after.branch_samples - before.branch_samples) /
                         static_cast<double>(after.step - before.step);
    EXPECT_GT(batch, 0.95 * 256);
    EXPECT_LT(batch, 1.12 * 256);
}

// The average says zero of a part that nobody brought: a running variance of zero would make every
// evaluation garbage, a change of zero is none.
TEST(Collaboration, buffers_move_by_the_average_of_their_changes) {
    const run::RunFile run = small_run();
    run::Layout layout = small_model(2).layout;
    layout.buffers_count = 4;
    const auto before = *replica::initial_state(run, layout, {1, 1}, {1, 2, 0.406f, 1e-3f});
    const std::vector<float> average{0, 0, 0.5f, -3, 0, 0};
    const auto after = replica::next_state(run, layout, *before, consensus::Decision{}, average);
    ASSERT_TRUE(after);
    const auto buffers = replica::buffers_of(**after);
    EXPECT_EQ(std::vector<float>(buffers.begin(), buffers.end()),
              (std::vector<float>{1.5f, -1, 0.406f, 1e-3f}));
}

// A peer without a vote must not lead: its rounds would end with nothing, one after the other.
TEST(Collaboration, who_cannot_write_its_votes_costs_no_step_a_deadline) {
    Swarm swarm(11);
    for (int i = 0; i < 3; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(4); }, 60s));
    const Duration usual = swarm.duration_of_steps(10) / 10;
    swarm.world.node(1).disk().set_full(true);
    Duration longest{0};
    for (int i = 0; i < 20; ++i) longest = std::max(longest, swarm.duration_of_steps(1));
    EXPECT_LT(to_seconds(longest), to_seconds(usual) + 1.1);
    swarm.world.node(1).disk().set_full(false);
    const PeerId& second = swarm.world.node(1).id();
    EXPECT_TRUE(swarm.world.run_until([&] { return swarm.newest_plan().leader == second; }, 60s));
}

TEST(Collaboration, a_frozen_peer_catches_up_when_it_wakes) {
    Swarm swarm(5);
    for (int i = 0; i < 4; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(3); }, 60s));
    swarm.world.node(2).freeze_for(20s);
    swarm.world.run_for(15s);
    EXPECT_GE(swarm.peers[1]->step(), swarm.peers[2]->step() + 3);
    const std::uint64_t goal = swarm.peers[1]->step() + 6;
    const bool done = swarm.world.run_until([&] { return swarm.all_at(goal); }, 60s);
    if (!done) swarm.print();
    EXPECT_TRUE(done);
    EXPECT_TRUE(
        swarm.world.run_until([&] { return swarm.hashes_at_same_step().size() == 1; }, 10s));
}

TEST(Collaboration, a_step_without_samples_of_a_peer_has_no_loss_of_it) {
    Swarm swarm(5);
    for (int i = 0; i < 4; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(5); }, 60s));
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_share(); }, 60s));
    // The open step may have what it has sent already; the one after that has not.
    const std::uint64_t first = swarm.peers[1]->step() + 3;
    swarm.world.node(2).freeze_for(20s);
    swarm.world.run_for(15s);
    const std::uint64_t last = swarm.peers[1]->step();
    ASSERT_GE(last, first + 2);
    const std::uint64_t woken = last + 30;
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(woken); }, 120s));
    Events& slept = swarm.peers[2]->events;
    Events& awake = swarm.peers[1]->events;
    for (std::uint64_t step = first; step <= last; ++step) {
        ASSERT_TRUE(slept.losses.contains(step)) << step;
        EXPECT_TRUE(std::isnan(slept.losses[step])) << step;
        EXPECT_TRUE(std::isfinite(awake.losses[step])) << step;
        EXPECT_LE(awake.contributors[step], 3u) << step;
        // The sleeper only knows what the plans say: these rounds went on without it.
        EXPECT_FALSE(slept.steps[step].computing_s) << step;
        EXPECT_TRUE(std::isfinite(slept.steps[step].predicted_s)) << step;
        EXPECT_TRUE(awake.steps[step].computing_s) << step;
    }
    const auto takes_part_again = [last](const auto& told) {
        return told.first > last && std::isfinite(told.second);
    };
    EXPECT_TRUE(std::ranges::any_of(slept.losses, takes_part_again));
    const auto is_all = [](const auto& told) { return told.second == 4; };
    EXPECT_TRUE(std::ranges::any_of(awake.contributors, is_all));
}

// From step `first` on: the parts of each step are all of it. Returns the sum of what was waited.
double check_where_the_time_went(const Events& events, std::uint64_t first) {
    double waited = 0;
    for (const auto& [step, made] : events.steps) {
        if (step < first) continue;
        double sum = 0;
        for (const auto& seconds :
             {made.computing_s, made.waiting_s, made.averaging_s, made.applying_s}) {
            EXPECT_GE(seconds.value_or(-1), 0) << step;
            sum += seconds.value_or(0);
        }
        EXPECT_NEAR(sum, made.seconds, 1e-6) << step;
        EXPECT_GT(made.computing_s.value_or(0), 0) << step;
        EXPECT_EQ(made.attempt, 0u) << step;
        EXPECT_EQ(made.left_out, 0u) << step;
        EXPECT_TRUE(std::isfinite(made.predicted_s)) << step;
        EXPECT_EQ(made.learning_rate, 0.25) << step;
        EXPECT_GT(made.gradient_norm.value_or(0), 0) << step;
        waited += made.waiting_s.value_or(0);
    }
    return waited;
}

// The fourth one's micro-batch takes two seconds, and the others have computed the rest by then:
// whoever leads waits for it, and says so whoever does not.
TEST(Collaboration, each_step_says_where_its_time_went) {
    Swarm swarm(3);
    Model model = small_model(elements);
    model.run.optimizer.schedule.peak = 0.25;
    model.run.optimizer.gradient_norm_max = 1;
    for (int i = 0; i < 4; ++i) swarm.add(i < 3 ? 64 : 8, model, 12.5e6);
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(3) && swarm.all_share(); }, 60s));
    const std::uint64_t from = swarm.peers[0]->step() + 2;
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(from + 8); }, 120s));
    std::vector<double> waited;
    for (const auto& peer : swarm.peers)
        waited.push_back(check_where_the_time_went(peer->events, from));
    for (std::size_t i = 0; i < 3; ++i) EXPECT_GT(waited[i], 2 * waited[3]) << i;
    int plans = 0;
    for (const auto& peer : swarm.peers) {
        for (const auto& [step, plan] : peer->events.plans) {
            if (step < from) continue;
            ++plans;
            EXPECT_TRUE(std::isfinite(plan.predicted_s));
            const auto full = plan.bottleneck.value_or("");
            EXPECT_TRUE(full == "upload" || full == "download") << full;
            EXPECT_TRUE(PeerId::from_text(plan.bottleneck_peer.value_or("")));
            EXPECT_EQ(plan.left_out, 0u);
            EXPECT_FALSE(plan.left_out_peers);
        }
    }
    EXPECT_GE(plans, 8);
}

// The only voter made a step and died. p1 knows its certificate and has no average; p2 heard
// nothing.
TEST(Collaboration, who_missed_a_step_that_nobody_can_make_any_more_parts_from_nobody) {
    Swarm swarm(17);
    for (int i = 0; i < 3; ++i) swarm.add();
    const Peer& half_in = *swarm.peers[1];
    const Peer& out = *swarm.peers[2];
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(0); }, 10s));
    swarm.world.run_for(500ms);
    ASSERT_EQ(swarm.peers[0]->step(), 0u);
    swarm.world.partition({{"p2"}, {"p0", "p1"}});
    swarm.world.node(1).set_weather(0, 400ms);
    const auto knows = [&] { return half_in.collaboration->accounts().certificates > 0; };
    ASSERT_TRUE(swarm.world.run_until(knows, 20s));
    swarm.world.node(0).kill();
    swarm.kill(0);
    ASSERT_EQ(half_in.step(), 0u);
    swarm.world.node(1).set_weather(0, 0ms);
    swarm.world.heal();
    const bool done = swarm.world.run_until([&] { return swarm.all_at(4); }, 90s);
    if (!done) swarm.print();
    EXPECT_TRUE(done);
    EXPECT_FALSE(out.events.counts.contains("new_branch"));
    EXPECT_EQ(swarm.hashes_at_same_step().size(), 1u);
}

TEST(Collaboration, parts_of_a_partition_meet_again_on_one_branch) {
    Swarm swarm(6);
    for (int i = 0; i < 5; ++i) swarm.add();
    ASSERT_TRUE(swarm.world.run_until([&] { return swarm.all_at(3); }, 60s));
    swarm.world.partition({{"p0", "p1", "p2"}, {"p3", "p4"}});
    swarm.world.run_for(30s);
    swarm.world.heal();
    const bool done = swarm.world.run_until(
        [&] {
            std::set<std::string> branches;
            for (const auto& peer : swarm.peers)
                branches.insert(peer->collaboration->branch().hex());
            return branches.size() == 1;
        },
        30s);
    if (!done) swarm.print();
    EXPECT_TRUE(done);
    EXPECT_TRUE(
        swarm.world.run_until([&] { return swarm.hashes_at_same_step().size() == 1; }, 20s));
}

}  // namespace
}  // namespace dedloc::collab
