#include "tests/sim/simulation.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <tuple>
#include <utility>

#include "dedloc/replica/certificate_log.h"
#include "dedloc/wire/message.h"

#include "tests/sim/consensus_torture.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_peer.h"
#include "tests/sim/simulation_review.h"

namespace dedloc::lab {
namespace {

constexpr Duration tick = 500ms;  // how often logs are read and peers looked after
constexpr std::uint64_t usual_elements = 768;

// The world of one scenario: peers start, die, leave and come again in it, and the checkers hear
// everything that they say and write.
class Simulation {
  public:
    explicit Simulation(const SimulationOptions& options)
        : options_(options),
          random_(base::Random(base::mix64(options.seed)).fork("lab")),
          run_(run_of(options)),
          world_(options.seed, network_of(options, random_)),
          checkers_(verifier_, options.elements(), options.codec, options.fragments),
          scenario_(make_scenario(options, world_, random_)),
          faults_end_(world_.now() + options.faults_for) {
        if (run_.run.robust) checkers_.expect_clipped(run_.clip_rule());
    }

    SimulationResult run();

  private:
    std::shared_ptr<const sim::FaultsPlayed> begin();
    void start_peer(std::size_t index);
    std::vector<std::string> addresses_beside(const Seat& seat) const;
    Task<void> teardown(sim::SimNode& node);
    void change_a_line();
    void look_after();
    void let_liar_run();
    void collect(Seat& seat);
    void collect_tails();
    void on_event(SimPeer& peer, const events::Event& event);
    void note_rest(SimPeer& peer, const events::Event& event);
    void assassinate(SimPeer& peer, const events::Event& event);
    bool somebody_has_a_state() const;
    bool settled(std::uint64_t goal) const;
    std::uint64_t highest_step() const;
    void check_liveness();
    void torture();
    void review();
    void count_learner(SimPeer& peer);
    void end();
    void sum_up();
    void trace(const std::string& line);
    std::string describe_peers() const;

    SimulationOptions options_;
    Random random_;
    SimRun run_;
    security::ToyVerifier verifier_;
    sim::World world_;
    Checkers checkers_;
    Scenario scenario_;
    std::vector<Seat>& seats_ = scenario_.seats;  // there, for short
    SimulationResult result_;
    SimulationReview review_{options_, run_, scenario_, checkers_, result_};
    std::unique_ptr<ProtocolLiar> liar_;
    TimePoint faults_end_;
    bool ending_ = false;
    std::uint64_t assassinations_ = 0;
};

SimulationResult Simulation::run() {
    torture();
    const auto played = begin();
    look_after();
    while (world_.now() < faults_end_ && checkers_.clean()) {
        world_.run_for(tick);
        look_after();
    }
    if (checkers_.clean()) {
        world_.run_for(100ms);
        check_liveness();
    }
    look_after();
    collect_tails();
    review();
    result_.faults = played->total() + assassinations_;
    end();
    sum_up();
    return result_;
}

std::shared_ptr<const sim::FaultsPlayed> Simulation::begin() {
    if (scenario_.liar)
        liar_ = std::make_unique<ProtocolLiar>(world_, *scenario_.liar, options_.lie);
    if (options_.prepare) options_.prepare(world_);
    if (options_.messages)
        world_.on_message([this](std::size_t from, std::size_t to, const std::string& method) {
            options_.messages(world_.now(), from, to, method);
        });
    if (options_.trace) options_.trace(scenario_.script.text());
    sim::FaultHooks hooks;
    hooks.teardown = [this](sim::SimNode& node) { return teardown(node); };
    hooks.restarted = [this](sim::SimNode& node, bool disk_lost) {
        trace(fmt::format("{} starts again{}", node.name(), disk_lost ? ", its disk is lost" : ""));
        if (seats_[node.index()].joined) start_peer(node.index());
    };
    return sim::play_faults(world_, scenario_.script, hooks);
}

void Simulation::start_peer(std::size_t index) {
    Seat& seat = seats_[index];
    if (ending_ || seat.gone || !seat.node->alive()) return;
    seat.joined = true;
    seat.log_bytes_read = 0;  // its disk may have been lost
    SimPeer::Setup setup{run_, checkers_, seat.samples_per_s, seat.micro_batch, {}, {}};
    setup.aggregates = seat.aggregates;
    setup.tells_on_nobody = scenario_.liar == index || scenario_.accomplice == index;
    if (setup.tells_on_nobody) {
        setup.lie = learner_lie(options_.lie);
        setup.orders_falsely = options_.lie == ProtocolLie::false_charge;
        setup.plans_alone = options_.lie == ProtocolLie::lonely_step;
        if (scenario_.accomplice) setup.lie.accomplices = {*scenario_.liar, *scenario_.accomplice};
    }
    setup.upload_max = seat.upload_max;
    setup.download_max = seat.download_max;
    setup.on_event = [this](SimPeer& peer, const events::Event& event) { on_event(peer, event); };
    const bool host = index == 0 && seat.node->incarnation() == 0;
    if (!host) setup.bootstrap = addresses_beside(seat);
    random_.shuffle(setup.bootstrap);
    seat.peer = std::make_unique<SimPeer>(world_, *seat.node, std::move(setup));
    const Ok made = seat.peer->make();
    if (!made) {
        trace(fmt::format("{} cannot start: {}", seat.node->name(), made.error().message()));
        seat.peer.reset();
        return;
    }
    seat.peer->begin();
}

std::vector<std::string> Simulation::addresses_beside(const Seat& seat) const {
    std::vector<std::string> addresses;
    for (const Seat& other : seats_)
        if (other.node != seat.node)
            addresses.push_back(other.node->address() + "/p2p/" + other.node->id().text());
    return addresses;
}

Task<void> Simulation::teardown(sim::SimNode& node) {
    Seat& seat = seats_[node.index()];
    trace(fmt::format("{} dies", node.name()));
    collect(seat);
    seat.disturbed.emplace_back(world_.now(), world_.now() + settled_after);
    if (!seat.peer) co_return;
    count_learner(*seat.peer);
    seat.gone = seat.gone || seat.peer->leaving();
    co_await seat.peer->end();
    seat.peer.reset();
    if (!somebody_has_a_state()) result_.extinct = true;
}

bool Simulation::somebody_has_a_state() const {
    return std::ranges::any_of(seats_, [](const Seat& seat) {
        return seat.peer && !seat.aggregates && seat.node->alive() && seat.peer->running();
    });
}

void Simulation::change_a_line() {
    const Seat* const seat = scenario_.mend_a_line();
    if (seat != nullptr && seat->peer)
        seat->peer->collaboration().set_caps(seat->upload_max, seat->download_max);
}

// Peers join and leave; a process that could not start is tried again.
void Simulation::look_after() {
    change_a_line();
    for (std::size_t i = 0; i < seats_.size(); ++i) {
        Seat& seat = seats_[i];
        if (!seat.peer && !seat.gone && seat.node->alive() && world_.now() >= seat.join_at)
            start_peer(i);
        if (seat.peer && !seat.gone && seat.peer->running() && world_.now() >= seat.leave_at &&
            world_.now() < faults_end_) {
            trace(fmt::format("{} leaves", seat.node->name()));
            seat.gone = true;
            seat.disturbed.emplace_back(world_.now() - 20s, TimePoint::never());
            seat.peer->leave(10s);
        }
        collect(seat);
    }
    let_liar_run();
}

// The liar has lied, and is gone before it is told.
void Simulation::let_liar_run() {
    if (options_.lie != ProtocolLie::hit_and_run) return;
    Seat& seat = seats_[*scenario_.liar];
    if (!seat.peer || seat.gone || !seat.peer->lied_first_at()) return;
    if (highest_step() < *seat.peer->lied_first_at() + runs_after) return;
    trace(fmt::format("{} runs", seat.node->name()));
    seat.gone = true;
    seat.peer->leave(1s);
}

// Reads the new certificates of a peer's log, which survives the peer.
void Simulation::collect(Seat& seat) {
    const auto& files = seat.node->disk().files();
    const auto file = files.find(replica::certificates_file);
    if (file == files.end()) return;
    const Bytes& bytes = file->second;
    if (bytes.size() < seat.log_bytes_read) seat.log_bytes_read = 0;
    const ByteView unread = ByteView(bytes).subspan(seat.log_bytes_read);
    for (const Bytes& certificate : replica::read_certificate_log(unread)) {
        checkers_.on_certificate(seat.node->name(), certificate, world_.now());
        seat.log_bytes_read += certificate.size() + 4;
    }
}

// The living know things that their disks do not (a full disk writes no log).
void Simulation::collect_tails() {
    for (Seat& seat : seats_) {
        if (!seat.peer || seat.aggregates || !seat.peer->running()) continue;
        const auto tail =
            wire::decode<consensus::CertificatesReply>(seat.peer->collaboration().chain());
        DEDLOC_CHECK(tail.has_value());
        for (const Bytes& certificate : tail->certificates)
            checkers_.on_certificate(seat.node->name(), certificate, world_.now());
    }
}

void Simulation::trace(const std::string& line) {
    if (options_.trace)
        options_.trace(fmt::format("{:9.3f} {}", to_seconds(world_.now().since_start), line));
}

void Simulation::on_event(SimPeer& peer, const events::Event& event) {
    note_rest(peer, event);
    if (options_.events) options_.events(peer.node().index(), event);
    if (event.is<events::InputRefused>() && std::ranges::none_of(seats_, &Seat::bad))
        checkers_.violation(fmt::format("{} refuses the samples of {}, which is honest: {}",
                                        peer.node().name(),
                                        event.peer.short_text(),
                                        event.text));
    if (options_.trace)
        trace(fmt::format("{} [{}] {}: {}{}",
                          peer.node().name(),
                          event.step,
                          event.kind(),
                          event.text,
                          event.peer.is_empty() ? "" : " (" + event.peer.short_text() + ")"));
    assassinate(peer, event);
}

// The peer says for how many steps it rests, as plans do without it.
void Simulation::note_rest(SimPeer& peer, const events::Event& event) {
    if (const auto* left_out = event.as<events::LeftOut>())
        seats_[peer.node().index()].rests.emplace_back(event.step, event.step + left_out->steps);
}

// Some seeds have one that kills peers right after they said what they do.
void Simulation::assassinate(SimPeer& peer, const events::Event& event) {
    using namespace events;
    if (scenario_.assassin <= 0 || world_.now() < TimePoint{6s} || world_.now() > faults_end_ - 5s)
        return;
    const bool telling = event.is<StepMade, PlanMade, PartsRepaired, BranchOpened, RoundFailed>();
    if (!telling || !random_.chance(scenario_.assassin * (event.is<PlanMade>() ? 8 : 1))) return;
    const std::size_t victim = peer.node().index();
    const std::size_t keeper = world_.now() < TimePoint{options_.faults_for / 2}
                                   ? scenario_.keeper_first
                                   : scenario_.keeper_second;
    if (victim == keeper || victim == scenario_.keeper_second) return;
    ++assassinations_;
    const Duration wait = random_.duration(0ms, 200ms);
    world_.after(wait, [this, victim] { seats_[victim].node->kill(); });
}

std::uint64_t Simulation::highest_step() const {
    std::uint64_t highest = 0;
    for (const Seat& seat : seats_)
        if (seat.peer && seat.peer->running()) highest = std::max(highest, seat.peer->step());
    return highest;
}

bool Simulation::settled(std::uint64_t goal) const {
    SimPeer* first = nullptr;
    for (const Seat& seat : seats_) {
        if (seat.gone || (options_.robust && seat.bad)) continue;
        if (!seat.peer || !seat.peer->running() || seat.peer->step() < goal) return false;
        if (first == nullptr) first = seat.peer.get();
        if (seat.peer->collaboration().branch() != first->collaboration().branch()) return false;
    }
    return first != nullptr;
}

std::string Simulation::describe_peers() const {
    std::string text;
    for (const Seat& seat : seats_) {
        text += " " + seat.node->name() + ":";
        if (seat.gone)
            text += "left";
        else if (!seat.peer)
            text += "down";
        else if (!seat.peer->running())
            text +=
                "joining" + (seat.peer->failure().empty() ? "" : "(" + seat.peer->failure() + ")");
        else
            text += fmt::format(
                "{}@{}", seat.peer->step(), seat.peer->collaboration().branch().short_hex());
    }
    return text;
}

void Simulation::check_liveness() {
    const std::uint64_t goal = highest_step() + 2;
    const TimePoint begun = world_.now();
    const TimePoint limit = begun + options_.liveness_within;
    while (world_.now() < limit && !settled(goal) && !result_.extinct) {
        world_.run_for(tick);
        look_after();
    }
    result_.recovered_in_s = to_seconds(world_.now() - begun);
    if (result_.extinct || settled(goal)) return;
    checkers_.violation(
        fmt::format("{:.0f} s after the last fault there is not one branch with "
                    "steps going on (goal: step {}):{}",
                    to_seconds(options_.liveness_within),
                    goal,
                    describe_peers()));
}

void Simulation::torture() {
    for (std::uint64_t i = 0; i < options_.tortures; ++i) {
        const std::uint64_t seed = options_.seed * 1'000'003 + i;
        const TortureOutcome outcome = torture_consensus(seed, options_.bugs);
        if (outcome.certified > 1)
            checkers_.violation(
                fmt::format("the consensus alone certified {} decisions (history {})",
                            outcome.certified,
                            seed));
    }
}

void Simulation::review() {
    review_.check_chains(world_.now() - 12s);
    if (!liar_) return;
    // Nobody dies where somebody lies.
    const SimPeer* const peer = seats_[*scenario_.liar].peer.get();
    review_.check_orders(*liar_, peer == nullptr ? 0 : peer->lies_told());
}

void Simulation::count_learner(SimPeer& peer) {
    result_.samples_ahead += peer.samples_ahead();
    result_.checks += peer.checks_answered();
}

void Simulation::end() {
    ending_ = true;
    for (Seat& seat : seats_) {
        // A peer that died just now is being torn down.
        if (!seat.node->alive()) world_.run_until([&] { return !seat.peer; }, 60s);
        if (!seat.peer) continue;
        count_learner(*seat.peer);
        world_.run_task(seat.peer->end());
        seat.peer.reset();
    }
}

void Simulation::sum_up() {
    result_.seed = options_.seed;
    result_.peers = seats_.size();
    result_.aggregators =
        static_cast<std::size_t>(std::ranges::count_if(seats_, &Seat::aggregates));
    result_.delayed = run_.run.averaging.delayed;
    result_.violations = checkers_.violations();
    result_.commits = checkers_.book().commits();
    result_.aborts = checkers_.book().aborts();
    result_.branches = checkers_.book().branches();
    result_.averages_checked = checkers_.averages_checked();
    result_.averages_of_grids = checkers_.averages_of_grids();
    result_.averages_of_sums = checkers_.averages_of_sums();
    result_.samples_judged = checkers_.samples_judged();
    result_.samples_lost = checkers_.samples_lost();
    result_.samples_expired = checkers_.samples_expired();
    const auto winner = checkers_.winner();
    review_.count_samples();
    result_.trace = world_.trace_hash();
    if (!winner.empty()) {
        result_.samples_committed = winner.back()->decision.branch_samples;
        for (const std::uint8_t byte : winner.back()->digest.bytes)
            result_.trace = base::mix64(result_.trace ^ byte);
    }
    result_.messages = world_.stats().messages_delivered;
}

}  // namespace

std::uint64_t SimulationOptions::elements() const {
    if (!codec::is_sparse(codec)) return usual_elements;
    // Some whole blocks of the codec, each a part, and a shorter one; as few as it takes.
    const std::uint64_t block = codec::block_elements(codec);
    return block * (block > 4096 ? 1 : 3) + 500;
}

void make_light(SimulationOptions& options) {
    using codec::CodecId;
    // The modes take turns.
    constexpr std::array<std::pair<CodecId, std::uint64_t>, 8> modes = {{{CodecId::sparse, 1},
                                                                         {CodecId::fp32, 2},
                                                                         {CodecId::sparse, 1},
                                                                         {CodecId::low_rank, 1},
                                                                         {CodecId::fp16, 3},
                                                                         {CodecId::sparse, 1},
                                                                         {CodecId::blockwise8, 4},
                                                                         {CodecId::low_rank, 1}}};
    options.light = true;
    std::tie(options.codec, options.fragments) = modes[options.seed % modes.size()];
}

void make_light_robust(SimulationOptions& options) {
    options.light = true;
    options.codec = codec::CodecId::fp32;
    options.fragments = 1;
}

SimulationResult simulate(const SimulationOptions& options) {
    Simulation simulation(options);
    return simulation.run();
}

}  // namespace dedloc::lab
