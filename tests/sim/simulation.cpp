#include "tests/sim/simulation.h"  // NOLINT(tidy): its length

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "dedloc/collab/certificate_log.h"
#include "dedloc/wire/message.h"

#include "tests/sim/consensus_torture.h"
#include "tests/sim/sim_peer.h"

namespace dedloc::lab {
namespace {

constexpr Duration tick = 500ms;         // how often logs are read and peers looked after
constexpr Duration settled_after = 8s;   // after a fault a peer may still be busy with it
constexpr double fast_line_s = 0.06;     // that the vector takes
constexpr double assassin_chance = 0.4;  // that a seed has one

// With randomness of its own, so that everything else of a seed stays as it was.
bool is_delayed(const SimulationOptions& options) {
    Random random = base::Random(base::mix64(options.seed)).fork("delayed");
    return options.delayed.value_or(!options.steady && random.below(3) == 0);
}

std::size_t group_max_of(const SimulationOptions& options) {
    constexpr std::size_t beyond_all = 64;
    Random random = base::Random(base::mix64(options.seed)).fork("grid");
    const bool grid = !options.steady && random.below(4) == 0;
    return options.group_max.value_or(grid ? 2 + random.below(3) : beyond_all);
}

// [robust] of a run in which half of all contributions are computed again. In every second one a
// newcomer weighs nothing before one of its own was.
std::optional<collab::RobustConfig> robust_config(const SimulationOptions& options) {
    if (!options.robust) return std::nullopt;
    collab::RobustConfig robust;
    robust.tau = 40;  // mean gradients are about half as long, noise included
    robust.check = 0.5;
    robust.probation = base::Random(base::mix64(options.seed)).fork("newcomers").below(2);
    return robust;
}

class Simulation {
  public:
    explicit Simulation(const SimulationOptions& options)
        : options_(options),
          random_(base::Random(base::mix64(options.seed)).fork("lab")),
          run_(make_sim_run(options.elements,
                            options.bugs,
                            is_delayed(options),
                            group_max_of(options),
                            options.codec,
                            robust_config(options))),
          world_(options.seed, world_options()),
          checkers_(verifier_, options.elements, options.codec) {
        if (run_.run.robust) checkers_.expect_clipped(run_.clip_rule());
        run_.run.averaging.leave_out_slow = options.leave_out_slow;
    }

    SimulationResult run();

  private:
    struct Seat {  // a machine, its process, and what happened to it
        sim::SimNode* node = nullptr;
        std::unique_ptr<SimPeer> peer;
        double samples_per_s = 0;
        std::uint64_t micro_batch = 1;
        TimePoint join_at;
        TimePoint leave_at = TimePoint::never();
        bool aggregates = false;
        double upload_max = 0;  // that plans may count on, bytes per second; 0: what is measured
        double download_max = 0;
        // From and to which step it brings nothing.
        std::vector<std::pair<std::uint64_t, std::uint64_t>> rests;
        bool joined = false;
        bool gone = false;  // left in order, for good
        std::size_t log_bytes_read = 0;
        std::vector<std::pair<TimePoint, TimePoint>> disturbed;
    };

    sim::WorldOptions world_options();
    void add_machines();
    void plan_joins_and_leaves();
    void let_aggregate(Seat& seat);
    void choose_aggregators();
    double line_rate(double seconds) const;
    void choose_slow_lines();
    void change_a_line();
    void check_aggregators();
    void check_left_out();
    void check_roles();
    bool is_bad(const Seat& seat) const { return options_.bad.contains(seat.node->index()); }
    bool is_bad(const PeerId& peer) {
        const sim::SimNode* const node = world_.find(peer);
        return node != nullptr && options_.bad.contains(node->index());
    }
    void count_learner(SimPeer& peer);
    void let_lie();
    bool was_disturbed(const robust::Order& order, const Link& link) const;
    void check_orders(const std::vector<const Link*>& chain);
    sim::FaultScript make_script();
    void note_disturbances(const sim::FaultScript& script);
    void start_peer(std::size_t index);
    Task<void> teardown(sim::SimNode& node);
    void look_after();
    void collect(Seat& seat);
    void collect_tails();
    void on_event(SimPeer& peer, const collab::Event& event);
    bool undisturbed(const PeerId& peer, TimePoint from, TimePoint to) const;
    bool somebody_has_a_state() const;
    bool can_meet(const PeerId& one, const PeerId& other) const;
    bool settled(std::uint64_t goal) const;
    std::uint64_t highest_step() const;
    void check_liveness();
    void check_pace();
    void note_rest(SimPeer& peer, const collab::Event& event);
    bool was_there(const Seat& seat, const Link& link, TimePoint at) const;
    void check_nobody_is_alone();
    void check_branches();
    void count_samples(const std::vector<const Link*>& chain);
    void torture();
    void end();
    void sum_up();
    void trace(const std::string& line);
    std::string describe_peers();

    SimulationOptions options_;
    Random random_;
    SimRun run_;
    security::ToyVerifier verifier_;
    sim::World world_;
    Checkers checkers_;
    std::vector<Seat> seats_;
    SimulationResult result_;
    std::set<PeerId> slow_once_;
    std::unique_ptr<ProtocolLiar> liar_;
    std::size_t liar_place_ = 0;
    std::uint64_t lies_of_learner_ = 0;
    std::optional<Random> lines_;  // of seeds in which some lines are slow
    double assassin_ = 0;          // chance that an event kills who has it
    TimePoint faults_end_;
    bool ending_ = false;
    std::uint64_t assassinations_ = 0;
    std::size_t keeper_first_ = 0;
    std::size_t keeper_second_ = 0;
};

sim::WorldOptions Simulation::world_options() {
    sim::WorldOptions world;
    world.link.latency = from_seconds(random_.uniform(0.002, 0.08));
    world.link.jitter = world.link.latency / 4;
    // Slow links make parts come late; every second seed has fast ones.
    world.link.bytes_per_s = random_.chance(0.5) ? 1e7 : random_.uniform(2e4, 4e5);
    world.worker_cost = random_.chance(0.5) ? Duration(0) : random_.duration(1ms, 20ms);
    if (options_.steady) world.worker_cost = 1ms;
    return world;
}

void Simulation::add_machines() {
    const std::size_t count =
        options_.peers_min + random_.below(options_.peers_max - options_.peers_min + 1);
    result_.peers = count;
    const double total = random_.uniform(40, 90);  // samples a second of all
    const bool skewed = random_.chance(0.5);
    seats_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        sim::NodeOptions node;
        node.name = fmt::format("n{}", i);
        if (skewed) {
            node.clock_offset = random_.duration(0s, 1000s);
            node.clock_drift = random_.uniform(-1e-4, 1e-4);
            node.wall_skew = random_.duration(-60s, 60s);
        }
        node.dialable = i == 0 || options_.steady || !random_.chance(0.15);
        constexpr unsigned kinds[] = {3, 1, 2};
        if (options_.two_networks) node.networks = kinds[i % std::size(kinds)];
        Seat& seat = seats_[i];
        seat.node = &world_.add_node(node);
        const double speed = options_.steady ? 1.0 : random_.uniform(0.4, 1.6);
        seat.samples_per_s = total / static_cast<double>(count) * speed;
        seat.micro_batch =
            std::max<std::uint64_t>(1, static_cast<std::uint64_t>(seat.samples_per_s * 0.3));
    }
}

void Simulation::plan_joins_and_leaves() {
    const TimePoint start = world_.now();
    const std::size_t able = seats_.size() - options_.aggregators.value_or(0);  // to keep a state
    keeper_first_ = random_.below(able);
    keeper_second_ = (keeper_first_ + 1 + random_.below(able - 1)) % able;
    for (std::size_t i = 1; i < seats_.size(); ++i) {
        const bool keeper = i == keeper_first_ || i == keeper_second_;
        const bool late = !keeper && !options_.steady && random_.chance(0.2);
        const Duration wait =
            late ? random_.duration(2s, options_.faults_for) : random_.duration(0s, 1s);
        seats_[i].join_at = start + wait;
        if (!keeper && !options_.steady && random_.chance(0.08))
            seats_[i].leave_at = start + wait + random_.duration(3s, 30s);
    }
    seats_[0].join_at = start;
    assassin_ = !options_.steady && random_.chance(assassin_chance) ? random_.uniform(0, 0.02) : 0;
}

void Simulation::let_aggregate(Seat& seat) {
    seat.aggregates = true;
    seat.node->options().dialable = true;
    ++result_.aggregators;
}

// With randomness of its own, so that everything else of a seed stays as it was.
void Simulation::choose_aggregators() {
    if (options_.aggregators) {
        const auto first = seats_.end() - static_cast<std::ptrdiff_t>(*options_.aggregators);
        std::for_each(first, seats_.end(), [this](Seat& seat) { let_aggregate(seat); });
        return;
    }
    Random random = base::Random(base::mix64(options_.seed)).fork("aggregators");
    if (options_.steady || seats_.size() < options_.aggregators_from) return;
    const std::uint64_t wanted = random.below(3);
    for (std::uint64_t tries = 0; tries < 20 && result_.aggregators < wanted; ++tries) {
        const std::size_t i = 1 + random.below(seats_.size() - 1);
        Seat& seat = seats_[i];
        if (i == keeper_first_ || i == keeper_second_ || seat.aggregates) continue;
        let_aggregate(seat);
    }
}

// Bytes per second of a line that the vector takes so long.
double Simulation::line_rate(double seconds) const {
    return static_cast<double>(options_.elements * sizeof(float)) / seconds;
}

// With randomness of its own, too. In this world vectors are so small that nothing is measured: in
// a quarter of the seeds everybody says what its line carries, and some have one that takes
// seconds.
void Simulation::choose_slow_lines() {
    Random random = base::Random(base::mix64(options_.seed)).fork("slow lines");
    if (options_.steady || random.below(4) != 0) return;
    for (Seat& seat : seats_) {
        seat.upload_max = seat.download_max = line_rate(fast_line_s);
        if (!random.chance(0.25)) continue;
        const double slow = line_rate(random.uniform(3, 60));
        const std::uint64_t ways = random.below(3);
        if (ways != 1) seat.upload_max = slow;
        if (ways != 0) seat.download_max = slow;
        slow_once_.insert(seat.node->id());
    }
    lines_ = random;
}

// Now and then somebody's line is mended.
void Simulation::change_a_line() {
    if (!lines_ || !lines_->chance(0.02)) return;
    Seat& seat = seats_[lines_->below(seats_.size())];
    seat.upload_max = seat.download_max = line_rate(fast_line_s);
    if (seat.peer) seat.peer->collaboration().set_caps(seat.upload_max, seat.download_max);
}

// One peer at least keeps the state: the first keeper does not die before the middle, the second
// not after it, nor for long enough before it to have joined again.
sim::FaultScript Simulation::make_script() {
    if (options_.script) return *options_.script;
    sim::FaultOptions faults;
    faults.begin = 5s;
    faults.quiet_after = options_.faults_for;
    faults.faults_per_s = random_.uniform(0.05, 0.7);
    faults.length_max = 12s;
    faults.disk_loss_chance = 0.3;
    sim::FaultScript script = sim::make_faults(options_.seed, seats_.size(), faults);
    const Duration middle = options_.faults_for / 2;
    std::erase_if(script.faults, [&](const sim::Fault& fault) {
        const bool death = fault.kind == sim::FaultKind::kill ||
                           fault.kind == sim::FaultKind::lose_machine ||
                           fault.kind == sim::FaultKind::crash_write;
        if (!death || fault.nodes.empty()) return false;
        const std::size_t node = fault.nodes[0];
        return (node == keeper_first_ && fault.at < middle) ||
               (node == keeper_second_ && fault.at + fault.length > middle - 12s);
    });
    return script;
}

void Simulation::note_disturbances(const sim::FaultScript& script) {
    for (const sim::Fault& fault : script.faults) {
        const TimePoint from{fault.at};
        const TimePoint to = from + fault.length + settled_after;
        if (fault.kind == sim::FaultKind::wall_step) continue;  // must not matter at all
        if (fault.kind == sim::FaultKind::partition) {
            for (Seat& seat : seats_) seat.disturbed.emplace_back(from, to);
            continue;
        }
        for (const std::size_t node : fault.nodes) seats_[node].disturbed.emplace_back(from, to);
    }
}

void Simulation::start_peer(std::size_t index) {
    Seat& seat = seats_[index];
    if (ending_ || seat.gone || !seat.node->alive()) return;
    seat.joined = true;
    seat.log_bytes_read = 0;  // its disk may have been lost
    SimPeer::Setup setup{run_, checkers_, seat.samples_per_s, seat.micro_batch, {}, {}};
    setup.aggregates = seat.aggregates;
    setup.tells_on_nobody = liar_ && index == liar_place_;
    if (setup.tells_on_nobody) {
        setup.lie = learner_lie(options_.lie);
        setup.charges_falsely = options_.lie == ProtocolLie::false_charge;
    }
    setup.upload_max = seat.upload_max;
    setup.download_max = seat.download_max;
    setup.on_event = [this](SimPeer& peer, const collab::Event& event) { on_event(peer, event); };
    const bool host = index == 0 && seat.node->incarnation() == 0;
    if (!host)
        for (const Seat& other : seats_)
            if (other.node != seat.node)
                setup.bootstrap.push_back(other.node->address() + "/p2p/" +
                                          other.node->id().text());
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
    return std::any_of(seats_.begin(), seats_.end(), [](const Seat& seat) {
        return seat.peer && !seat.aggregates && seat.node->alive() && seat.peer->running();
    });
}

// Joins, leaves, processes that could not start.
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
}

// New certificates of a peer's log, which survives the peer.
void Simulation::collect(Seat& seat) {
    const auto& files = seat.node->disk().files();
    const auto file = files.find(collab::certificates_file);
    if (file == files.end()) return;
    const Bytes& bytes = file->second;
    if (bytes.size() < seat.log_bytes_read) seat.log_bytes_read = 0;
    const ByteView unread = ByteView(bytes).subspan(seat.log_bytes_read);
    for (const Bytes& certificate : collab::read_certificate_log(unread)) {
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

void Simulation::on_event(SimPeer& peer, const collab::Event& event) {
    using namespace collab::events;
    note_rest(peer, event);
    if (options_.events) options_.events(peer.node().index(), event);
    if (event.is<InputRefused>() && options_.bad.empty())
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
    if (assassin_ <= 0 || world_.now() < TimePoint{6s} || world_.now() > faults_end_ - 5s) return;
    const bool telling = event.is<StepMade, PlanMade, PartsRepaired, BranchOpened, RoundFailed>();
    if (!telling || !random_.chance(assassin_ * (event.is<PlanMade>() ? 8 : 1))) return;
    const std::size_t victim = peer.node().index();
    const std::size_t keeper =
        world_.now() < TimePoint{options_.faults_for / 2} ? keeper_first_ : keeper_second_;
    if (victim == keeper || victim == keeper_second_) return;
    ++assassinations_;
    const Duration wait = random_.duration(0ms, 200ms);
    world_.after(wait, [this, victim] { seats_[victim].node->kill(); });
}

bool Simulation::undisturbed(const PeerId& peer, TimePoint from, TimePoint to) const {
    if (peer.is_empty())  // everybody
        return std::all_of(seats_.begin(), seats_.end(), [&](const Seat& seat) {
            return undisturbed(seat.node->id(), from, to);
        });
    for (const Seat& seat : seats_) {
        if (seat.node->id() != peer) continue;
        return std::none_of(seat.disturbed.begin(), seat.disturbed.end(), [&](const auto& time) {
            return time.first < to && from < time.second;
        });
    }
    return false;
}

std::uint64_t Simulation::highest_step() const {
    std::uint64_t highest = 0;
    for (const Seat& seat : seats_)
        if (seat.peer && seat.peer->running()) highest = std::max(highest, seat.peer->step());
    return highest;
}

bool Simulation::settled(std::uint64_t goal) const {
    const SimPeer* first = nullptr;
    for (const Seat& seat : seats_) {
        if (seat.gone || (options_.robust && is_bad(seat))) continue;
        if (!seat.peer || !seat.peer->running() || seat.peer->step() < goal) return false;
        if (first == nullptr) first = seat.peer.get();
        const auto& collaboration = const_cast<Seat&>(seat).peer->collaboration();
        if (collaboration.branch() != const_cast<SimPeer*>(first)->collaboration().branch())
            return false;
    }
    return first != nullptr;
}

std::string Simulation::describe_peers() {
    std::string text;
    for (Seat& seat : seats_) {
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

// While everybody is undisturbed, steps come at their usual pace.
void Simulation::check_pace() {
    std::optional<TimePoint> before;
    for (const Link* link : checkers_.winner()) {
        if (!link->plan) continue;
        const auto at =
            checkers_.reached(link->decision.instance.branch, link->decision.instance.step + 1);
        if (!at) continue;
        result_.commit_times_s.push_back(to_seconds(at->since_start));
        if (before) {
            const double gap = to_seconds(*at - *before);
            result_.step_gap_max_s = std::max(result_.step_gap_max_s, gap);
            const bool calm = std::all_of(seats_.begin(), seats_.end(), [&](const Seat& seat) {
                return undisturbed(seat.node->id(), *before - 20s, *at);
            });
            constexpr double pace_max_s = 12;  // a step takes about 3
            if (calm && gap > pace_max_s)
                checkers_.violation(
                    fmt::format("nothing was wrong for 20 s, and yet {} took {:.1f} s",
                                describe(link->decision),
                                gap));
        }
        before = at;
    }
}

// Two peers that nobody can dial never meet: there are no relays in this world.
bool Simulation::can_meet(const PeerId& one, const PeerId& other) const {
    if (one == other) return true;
    for (const Seat& seat : seats_)
        if ((seat.node->id() == one || seat.node->id() == other) && seat.node->options().dialable)
            return true;
    return false;
}

// It says for how many steps it rests, as plans do without it.
void Simulation::note_rest(SimPeer& peer, const collab::Event& event) {
    if (const auto* left_out = event.as<collab::events::LeftOut>())
        seats_[peer.node().index()].rests.emplace_back(event.step, event.step + left_out->steps);
}

bool Simulation::was_there(const Seat& seat, const Link& link, TimePoint at) const {
    const std::uint64_t step = link.decision.instance.step;
    const bool rested = std::ranges::any_of(
        seat.rests, [&](const auto& rest) { return rest.first <= step && step <= rest.second; });
    return !rested && !seat.aggregates && seat.peer && seat.peer->running() &&
           seat.peer->running_since() + 10s < at && undisturbed(seat.node->id(), at - 30s, at);
}

// A step on one peer's gradient alone, while another one was there all the time that it could meet,
// or that a third one could have led together with it.
void Simulation::check_nobody_is_alone() {
    for (const auto& [digest, link] : checkers_.book().links()) {
        if (!link.plan) continue;
        std::size_t contributors = 0;
        PeerId who;
        for (const auto& member : link.plan->members)
            if (!member.input.is_empty()) {
                ++contributors;
                who = member.peer;
            }
        const auto at =
            checkers_.reached(link.decision.instance.branch, link.decision.instance.step + 1);
        if (contributors != 1 || !at || !undisturbed(who, *at - 30s, *at)) continue;
        const bool led = std::ranges::any_of(seats_, [&](const Seat& seat) {
            return seat.node->options().dialable && was_there(seat, link, *at);
        });
        for (const Seat& seat : seats_)
            if (seat.node->id() != who && was_there(seat, link, *at) &&
                (led || can_meet(who, seat.node->id())))
                checkers_.violation(fmt::format("{}: {} stepped alone, and {} was there",
                                                describe(link.decision),
                                                who.short_text(),
                                                seat.node->name()));
    }
}

// A new branch while one of its peers could reach as many voters as decide: it and they
// undisturbed.
void Simulation::check_branches() {
    for (const auto& [digest, link] : checkers_.book().links()) {
        if (link.decision.kind != consensus::DecisionKind::branch) continue;
        const auto previous = checkers_.book().links().find(link.decision.previous);
        const auto at = checkers_.first_seen(digest);
        if (previous == checkers_.book().links().end() || !at) continue;
        const auto& voters = previous->second.decision.next_voters;
        const Duration window = run_.run.averaging.quorum_timeout + 15s;
        std::size_t calm = 0;  // the most that any of those who signed could reach
        for (const consensus::Voter& survivor : link.decision.next_voters) {
            if (!undisturbed(survivor.peer, *at - window, *at)) continue;
            const auto reached = static_cast<std::size_t>(
                std::count_if(voters.begin(), voters.end(), [&](const consensus::Voter& voter) {
                    return undisturbed(voter.peer, *at - window, *at) &&
                           can_meet(survivor.peer, voter.peer);
                }));
            calm = std::max(calm, reached);
        }
        if (calm < consensus::quorum(voters.size(), run_.run.robust.has_value())) continue;
        checkers_.violation(fmt::format("{} was opened although {} of {} voters were there",
                                        describe(link.decision),
                                        calm,
                                        voters.size()));
    }
}

// They lead, vote and donate nothing; what they reduced is checked like everybody's.
void Simulation::check_aggregators() {
    std::set<PeerId> aggregators;
    for (const Seat& seat : seats_)
        if (seat.aggregates) aggregators.insert(seat.node->id());
    for (const auto& [digest, link] : checkers_.book().links()) {
        for (const consensus::Voter& voter : link.decision.next_voters)
            if (aggregators.contains(voter.peer))
                checkers_.violation(describe(link.decision) + ": an aggregator may vote");
        if (!link.plan) continue;
        for (const consensus::PlanMember& member : link.plan->members)
            if (aggregators.contains(member.peer) != member.aggregator)
                checkers_.violation(fmt::format("{}: {} takes part in another role than its own",
                                                describe(link.decision),
                                                member.peer.short_text()));
        for (const consensus::FinishedPart& part : link.decision.parts)
            if (part.owner < link.plan->members.size() && link.plan->members[part.owner].aggregator)
                ++result_.parts_of_aggregators;
    }
}

// Only whose line is slow, or was; and those in the plan are enough to certify it.
void Simulation::check_left_out() {
    for (const auto& [digest, link] : checkers_.book().links()) {
        if (!link.plan || link.plan->left_out.empty()) continue;
        result_.left_out += link.plan->left_out.size();
        for (const PeerId& peer : link.plan->left_out)
            if (!slow_once_.contains(peer))
                checkers_.violation(fmt::format("{} leaves out {}, whose line was never slow",
                                                describe(link.decision),
                                                peer.short_text()));
        const auto previous = checkers_.book().links().find(link.decision.previous);
        if (previous == checkers_.book().links().end()) continue;
        const auto& voters = previous->second.decision.next_voters;
        const auto is_member = [&](const consensus::Voter& voter) {
            return std::ranges::any_of(
                link.plan->members, [&](const auto& member) { return member.peer == voter.peer; });
        };
        const bool without_voters = std::ranges::any_of(voters, [&](const consensus::Voter& voter) {
            return link.plan->leaves_out(voter.peer) && !is_member(voter);
        });
        const auto left = static_cast<std::size_t>(std::ranges::count_if(voters, is_member));
        if (without_voters && left < consensus::majority(voters.size()))
            checkers_.violation(describe(link.decision) + " leaves out a majority of voters");
    }
}

void Simulation::check_roles() {
    check_aggregators();
    check_left_out();
}

void Simulation::count_samples(const std::vector<const Link*>& chain) {
    result_.samples_of.assign(seats_.size(), 0.0);
    for (const Link* link : chain) {
        if (!link->plan) continue;
        for (std::size_t m = 0; m < link->plan->members.size(); ++m)
            for (std::size_t p = 0; p < link->plan->parts.size(); ++p) {
                const auto& member = link->plan->members[m];
                if (!link->decision.parts[p].includes(m)) continue;
                const sim::SimNode* node = world_.find(member.peer);
                result_.samples_of[node->index()] += consensus::included_samples(
                    member.input, link->plan->parts[p].range(), options_.elements);
            }
    }
}

// Not the first one: somebody has to begin the run.
void Simulation::let_lie() {
    Random random = base::Random(base::mix64(options_.seed)).fork("liar");
    liar_place_ = 1 + random.below(seats_.size() - 1);
    liar_ = std::make_unique<ProtocolLiar>(world_, liar_place_, options_.lie);
    if (options_.lie != ProtocolLie::none) options_.bad.insert(liar_place_);
}

// By a fault, shortly before it was ordered so.
bool Simulation::was_disturbed(const robust::Order& order, const Link& link) const {
    const auto at = checkers_.first_seen(link.digest);
    return !at || !undisturbed(order.subject, *at - 30s, *at);
}

// The liar ends in the order that the rules name, and nobody else in any.
void Simulation::check_orders(const std::vector<const Link*>& chain) {
    const LieOutcome& wanted = outcome_of(options_.lie);
    bool as_wanted = false;
    std::set<PeerId> reproached;
    for (const Link* link : chain) {
        for (const robust::Order& order : link->decision.orders) {
            if (order.kind == robust::OrderKind::vouch || order.subject.is_empty()) continue;
            const bool liar = order.subject == seats_[liar_place_].node->id() &&
                              options_.lie != ProtocolLie::none;
            // A peer that errs is told at first, whatever it means to do.
            // And where one of two commitments has not gone round yet, it only does not fit.
            const bool warned = order.offence == robust::Offence::mistaken &&
                                wanted.offence == robust::Offence::wrong_gradient;
            const bool half_known = order.offence == robust::Offence::withheld &&
                                    wanted.offence == robust::Offence::two_commitments;
            const bool on_its_way = liar && (warned || half_known);
            const bool instead = order.kind == robust::OrderKind::ban &&
                                 wanted.instead != robust::Offence::none &&
                                 order.offence == wanted.instead;
            const bool named = order.kind == wanted.kind && order.offence == wanted.offence;
            // A newcomer's rows, which weigh nothing, are looked at by its first checks only.
            const bool by_checks = options_.lie == ProtocolLie::false_row &&
                                   run_.run.robust->probation > 0 &&
                                   (order.offence == robust::Offence::mistaken ||
                                    order.offence == robust::Offence::wrong_gradient);
            if (liar && (named || instead || by_checks))
                as_wanted = true;
            else if (!liar && order.offence == robust::Offence::withheld &&
                     was_disturbed(order, *link))
                continue;  // nobody can tell a machine that hangs from one that keeps silent
            else if (!on_its_way && reproached.insert(order.subject).second)
                checkers_.violation(fmt::format("{}: {}{} is {}",
                                                describe(link->decision),
                                                order.subject.short_text(),
                                                liar ? ", the liar," : ", which is honest,",
                                                robust::in_words(order)));
        }
        if (link->plan)
            for (const consensus::PlanMember& member : link->plan->members)
                result_.peer_steps += member.input.is_empty() || is_bad(member.peer) ? 0 : 1;
    }
    result_.honest_ordered = reproached.size();
    result_.liars_judged = as_wanted ? 1 : 0;
    const std::uint64_t told = liar_->told() + lies_of_learner_;
    if (wanted.kind && !as_wanted && told >= wanted.enough)
        checkers_.violation(fmt::format("a peer lied {} times ({}) and was not {}",
                                        told,
                                        wanted.name,
                                        robust::to_string(*wanted.kind)));
    for (const std::string& early : liar_->early_draws()) checkers_.violation(early);
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
    result_.violations = checkers_.violations();
    result_.commits = checkers_.book().commits();
    result_.aborts = checkers_.book().aborts();
    result_.branches = checkers_.book().branches();
    result_.averages_checked = checkers_.averages_checked();
    result_.averages_of_grids = checkers_.averages_of_grids();
    result_.samples_judged = checkers_.samples_judged();
    result_.samples_lost = checkers_.samples_lost();
    result_.samples_expired = checkers_.samples_expired();
    const auto winner = checkers_.winner();
    count_samples(winner);
    result_.trace = world_.trace_hash();
    if (!winner.empty()) {
        result_.samples_committed = winner.back()->decision.branch_samples;
        for (const std::uint8_t byte : winner.back()->digest.bytes)
            result_.trace = base::mix64(result_.trace ^ byte);
    }
    result_.messages = world_.stats().messages_delivered;
}

SimulationResult Simulation::run() {
    result_.seed = options_.seed;
    result_.delayed = run_.run.averaging.delayed;
    torture();
    add_machines();
    plan_joins_and_leaves();
    choose_aggregators();
    choose_slow_lines();
    const sim::FaultScript script = make_script();
    faults_end_ = world_.now() + options_.faults_for;
    note_disturbances(script);
    if (options_.robust) let_lie();
    for (const std::size_t bad : options_.bad)
        seats_.at(bad).disturbed.emplace_back(TimePoint{}, TimePoint::never());
    if (options_.prepare) options_.prepare(world_);
    if (options_.messages)
        world_.on_message([this](std::size_t from, std::size_t to, const std::string& method) {
            options_.messages(world_.now(), from, to, method);
        });
    if (options_.trace) options_.trace(script.text());
    sim::FaultHooks hooks;
    hooks.teardown = [this](sim::SimNode& node) { return teardown(node); };
    hooks.restarted = [this](sim::SimNode& node, bool disk_lost) {
        trace(fmt::format("{} starts again{}", node.name(), disk_lost ? ", its disk is lost" : ""));
        if (seats_[node.index()].joined) start_peer(node.index());
    };
    const auto played = sim::play_faults(world_, script, hooks);
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
    const TimePoint judged_until = world_.now() - 12s;
    checkers_.finish(
        [this](const PeerId& peer, TimePoint from, TimePoint to) {
            return undisturbed(peer, from, to);
        },
        judged_until);
    check_pace();
    check_nobody_is_alone();
    check_branches();
    check_roles();
    if (options_.robust) {
        // Nobody dies where somebody lies.
        if (seats_[liar_place_].peer) lies_of_learner_ = seats_[liar_place_].peer->lies_told();
        check_orders(checkers_.winner());
    }
    result_.faults = played->total() + assassinations_;
    end();

    sum_up();
    return result_;
}

}  // namespace

SimulationResult simulate(const SimulationOptions& options) {
    Simulation simulation(options);
    return simulation.run();
}

}  // namespace dedloc::lab
