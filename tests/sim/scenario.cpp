#include "tests/sim/scenario.h"

#include <algorithm>
#include <fmt/format.h>

namespace dedloc::lab {
namespace {

constexpr double fast_line_s = 0.06;     // that the vector takes
constexpr double assassin_chance = 0.4;  // that a seed has one

// Each purpose draws from randomness of its own: everything else of a seed stays as it was.
Random own_random(const SimulationOptions& options, std::string_view purpose) {
    return base::Random(base::mix64(options.seed)).fork(purpose);
}

bool is_delayed(const SimulationOptions& options) {
    Random random = own_random(options, "delayed");
    const bool drawn = options.light ? random.below(4) != 0 : random.below(3) == 0;
    return options.delayed.value_or(!options.steady && drawn);
}

std::size_t group_max_of(const SimulationOptions& options) {
    constexpr std::size_t beyond_all = 64;
    Random random = own_random(options, "grid");
    const bool grid = !options.steady && random.below(4) == 0;
    return options.group_max.value_or(grid ? 2 + random.below(3) : beyond_all);
}

std::uint64_t gather_max_of(const SimulationOptions& options) {
    Random random = own_random(options, "sums");
    const bool few = codec::sum_codec(options.codec).has_value() && random.chance(0.5);
    return options.gather_max.value_or(few ? 3 : codec::gather_max_usual);
}

// [robust] of a run in which half of all contributions are computed again. In every second one a
// newcomer weighs nothing before one of its own was.
std::optional<run::RobustConfig> robust_config(const SimulationOptions& options) {
    if (!options.robust) return std::nullopt;
    run::RobustConfig robust;
    robust.check = 0.5;
    // Machines round what they hand in, not each inner step.
    if (options.light) robust.tolerance = 2e-3;
    // A key that hits and runs is young.
    const bool long_trusted = options.lie != ProtocolLie::hit_and_run;
    robust.trust_after = long_trusted ? 4 * own_random(options, "trust").below(2) : 32;
    robust.probation = own_random(options, "newcomers").below(2);
    return robust;
}

class ScenarioMaker {
  public:
    ScenarioMaker(const SimulationOptions& options, sim::World& world, Random& random)
        : options_(options), world_(world), random_(random) {}

    Scenario make();

  private:
    void add_machines();
    void plan_joins_and_leaves();
    void let_aggregate(Seat& seat);
    void choose_aggregators();
    double line_rate(double seconds) const;
    void choose_slow_lines();
    sim::FaultScript make_script();
    void note_disturbances();
    void choose_liar();
    void note_bad();

    const SimulationOptions& options_;
    sim::World& world_;
    Random& random_;
    Scenario scenario_;
    std::vector<Seat>& seats_ = scenario_.seats;  // there, for short
};

Scenario ScenarioMaker::make() {
    add_machines();
    plan_joins_and_leaves();
    choose_aggregators();
    choose_slow_lines();
    scenario_.script = make_script();
    note_disturbances();
    choose_liar();
    note_bad();
    return std::move(scenario_);
}

void ScenarioMaker::add_machines() {
    const std::size_t count =
        options_.peers_min + random_.below(options_.peers_max - options_.peers_min + 1);
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
        // Inner steps end where micro-batches do, and others make them again.
        if (options_.robust && options_.light) seat.micro_batch = sim_micro_batch;
    }
}

void ScenarioMaker::plan_joins_and_leaves() {
    const TimePoint start = world_.now();
    const std::size_t able = seats_.size() - options_.aggregators.value_or(0);  // to keep a state
    scenario_.keeper_first = random_.below(able);
    scenario_.keeper_second = (scenario_.keeper_first + 1 + random_.below(able - 1)) % able;
    for (std::size_t i = 1; i < seats_.size(); ++i) {
        const bool keeper = i == scenario_.keeper_first || i == scenario_.keeper_second;
        const bool late = !keeper && !options_.steady && random_.chance(0.2);
        const Duration wait =
            late ? random_.duration(2s, options_.faults_for) : random_.duration(0s, 1s);
        seats_[i].join_at = start + wait;
        if (!keeper && !options_.steady && random_.chance(0.08))
            seats_[i].leave_at = start + wait + random_.duration(3s, 30s);
    }
    seats_[0].join_at = start;
    if (!options_.steady && random_.chance(assassin_chance))
        scenario_.assassin = random_.uniform(0, 0.02);
}

void ScenarioMaker::let_aggregate(Seat& seat) {
    seat.aggregates = true;
    seat.node->options().dialable = true;
}

void ScenarioMaker::choose_aggregators() {
    if (options_.aggregators) {
        const auto first = seats_.end() - static_cast<std::ptrdiff_t>(*options_.aggregators);
        std::for_each(first, seats_.end(), [this](Seat& seat) { let_aggregate(seat); });
        return;
    }
    Random random = own_random(options_, "aggregators");
    if (options_.steady || seats_.size() < options_.aggregators_from) return;
    const std::uint64_t wanted = random.below(3);
    std::uint64_t chosen = 0;
    for (std::uint64_t tries = 0; tries < 20 && chosen < wanted; ++tries) {
        const std::size_t i = 1 + random.below(seats_.size() - 1);
        const bool keeper = i == scenario_.keeper_first || i == scenario_.keeper_second;
        if (keeper || seats_[i].aggregates) continue;
        let_aggregate(seats_[i]);
        ++chosen;
    }
}

// Bytes per second of a line that the vector takes so long.
double ScenarioMaker::line_rate(double seconds) const {
    return static_cast<double>(options_.elements() * sizeof(float)) / seconds;
}

// In this world vectors are so small that nothing is measured: in a quarter of the seeds everybody
// says what its line carries, and some have one that takes seconds.
void ScenarioMaker::choose_slow_lines() {
    Random random = own_random(options_, "slow lines");
    if (options_.steady || random.below(4) != 0) return;
    scenario_.fast_line = line_rate(fast_line_s);
    for (Seat& seat : seats_) {
        seat.upload_max = seat.download_max = scenario_.fast_line;
        if (!random.chance(0.25)) continue;
        const double slow = line_rate(random.uniform(3, 60));
        const std::uint64_t ways = random.below(3);
        if (ways != 1) seat.upload_max = slow;
        if (ways != 0) seat.download_max = slow;
        seat.was_slow = true;
    }
    scenario_.lines = random;
}

// No fault kills the first keeper before the middle, nor the second after it, nor for long enough
// before it to have joined again.
sim::FaultScript ScenarioMaker::make_script() {
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
        return (node == scenario_.keeper_first && fault.at < middle) ||
               (node == scenario_.keeper_second && fault.at + fault.length > middle - 12s);
    });
    return script;
}

void ScenarioMaker::note_disturbances() {
    for (const sim::Fault& fault : scenario_.script.faults) {
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

// The first one never lies: somebody has to begin the run.
void ScenarioMaker::choose_liar() {
    if (!options_.robust) return;
    scenario_.liar = 1 + own_random(options_, "liar").below(seats_.size() - 1);
    if (options_.lie != ProtocolLie::none) seats_[*scenario_.liar].bad = true;
    if (options_.lie != ProtocolLie::colluding_pair) return;
    scenario_.accomplice = 1 + *scenario_.liar % (seats_.size() - 1);
    seats_[*scenario_.accomplice].bad = true;
}

void ScenarioMaker::note_bad() {
    for (const std::size_t bad : options_.bad) seats_.at(bad).bad = true;
    for (Seat& seat : seats_)
        if (seat.bad) seat.disturbed.emplace_back(TimePoint{}, TimePoint::never());
}

}  // namespace

bool Seat::undisturbed(TimePoint from, TimePoint to) const {
    return std::ranges::none_of(
        disturbed, [&](const auto& time) { return time.first < to && from < time.second; });
}

const Seat* Scenario::find(const PeerId& peer) const {
    const auto seat =
        std::ranges::find_if(seats, [&](const Seat& one) { return one.node->id() == peer; });
    return seat == seats.end() ? nullptr : &*seat;
}

Seat* Scenario::mend_a_line() {
    if (!lines || !lines->chance(0.02)) return nullptr;
    Seat& seat = seats[lines->below(seats.size())];
    seat.upload_max = seat.download_max = fast_line;
    return &seat;
}

SimRun run_of(const SimulationOptions& options) {
    SimRun run = make_sim_run(options.elements(),
                              options.bugs,
                              is_delayed(options),
                              group_max_of(options),
                              options.codec,
                              robust_config(options));
    run.run.averaging.leave_out_slow = options.leave_out_slow;
    run.run.averaging.gather_max = gather_max_of(options);
    if (options.light) make_local(run.run);
    if (options.fragments > 1) run.run.local->fragments = options.fragments;
    return run;
}

sim::WorldOptions network_of(const SimulationOptions& options, Random& random) {
    sim::WorldOptions world;
    world.link.latency = from_seconds(random.uniform(0.002, 0.08));
    world.link.jitter = world.link.latency / 4;
    // Slow links make parts come late; every second seed has fast ones.
    world.link.bytes_per_s = random.chance(0.5) ? 1e7 : random.uniform(2e4, 4e5);
    world.worker_cost = random.chance(0.5) ? Duration(0) : random.duration(1ms, 20ms);
    if (options.steady) world.worker_cost = 1ms;
    return world;
}

Scenario make_scenario(const SimulationOptions& options, sim::World& world, Random& random) {
    return ScenarioMaker(options, world, random).make();
}

}  // namespace dedloc::lab
