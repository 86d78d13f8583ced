#include "lab/paper_processes.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <signal.h>
#include <thread>

#include "lab/link_topology.h"
#include "lab/peer_process.h"
#include "lab/process_folder.h"

namespace dedloc::lab {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr double host_patience_s = 60;
constexpr double gather_patience_s = 600;
constexpr double step_patience_s = 240;
constexpr double leave_patience_s = 20;
constexpr std::size_t settling_steps = 3;  // until plans know the lines
constexpr double unlimited_bytes_per_s = 125e6;
constexpr double bytes_of_megabit = 1e6 / 8;
constexpr auto look_every = std::chrono::milliseconds(20);

double seconds_since(SteadyClock::time_point then) {
    return std::chrono::duration<double>(SteadyClock::now() - then).count();
}

// What all peers' logs say of one step.
struct StepBooked {
    double first_s = 0;  // on the wall, when the first peer had it
    double samples = 0;
    double members = 0;
    double loss_sum = 0;
    double losses = 0;
    std::string hash;
};

class PaperProcesses {
  public:
    PaperProcesses(const PaperProcessesOptions& options, const PaperSetup& setup)
        : options_(options), setup_(setup) {}
    ~PaperProcesses();

    Result<PaperRun> run();

  private:
    // A line, and who is at its end; nobody: a part-timer who is away.
    struct Seat {
        std::string name;
        bool trains = true;
        std::unique_ptr<PeerProcess> peer;
        double next_s = 0;    // comes or goes: part-timers
        bool leaves = false;  // was asked to
        int lives = 0;
    };
    Ok lay_lines();
    Ok write_run();
    Ok start(std::size_t index);
    Ok gather();
    Ok make_steps();
    Ok come_and_go(double now_s);
    Ok look();
    void book(const Seat& seat, const collab::Event& event);
    std::uint64_t newest() const { return steps_.empty() ? 0 : steps_.rbegin()->first; }
    std::vector<std::string> words(std::size_t index) const;
    PaperRun result() const;

    const PaperProcessesOptions& options_;
    const PaperSetup& setup_;
    std::string folder_;
    std::unique_ptr<LinkTopology> topology_;
    LinkOptions lines_;
    std::vector<Seat> seats_;
    std::string join_;
    std::map<std::uint64_t, StepBooked> steps_;
    std::set<std::string> joined_;
    std::uint64_t first_step_ = 0;  // that counts
    std::uint64_t rounds_of_aggregators_ = 0;
    double samples_of_one_ = 1;  // of the synthetic task
    bool identical_ = true;
};

PaperProcesses::~PaperProcesses() {
    for (Seat& seat : seats_)
        if (seat.peer) seat.peer->process().send(SIGTERM);
    const auto asked = SteadyClock::now();
    for (Seat& seat : seats_)
        if (seat.peer)
            (void)seat.peer->process().wait_for(
                std::max(0.0, leave_patience_s - seconds_since(asked)));
    seats_.clear();
    if (!folder_.empty()) end_process_folder(folder_, false);
}

Ok PaperProcesses::lay_lines() {
    const auto add = [this](const std::vector<VirtualLine>& lines, const char* name, bool trains) {
        for (std::size_t i = 0; i < lines.size(); ++i) {
            const VirtualLine line =
                lines[i].times(1.0 / static_cast<double>(options_.lines_divisor));
            const bool limited = line.up_bytes_per_s < unlimited_bytes_per_s;
            lines_.lines.push_back(limited ? LinkLine{line.up_bytes_per_s, line.down_bytes_per_s}
                                           : LinkLine{});
            seats_.emplace_back();
            seats_.back().name = fmt::format("{}-{}", name, i + 1);
            seats_.back().trains = trains;
        }
    };
    add(setup_.trainers, "trainer", true);
    add(setup_.aggregators, "aggregator", false);
    add(setup_.part_time, "part-timer", true);
    DEDLOC_TRY(topology_, LinkTopology::make(lines_));
    return {};
}

Ok PaperProcesses::write_run() {
    DEDLOC_TRY(folder_, process_folder({}, "paper"));
    collab::RunFile run =
        paper_run(setup_.trainers.size(), options_.lines_divisor, options_.time_divisor);
    const double smaller = static_cast<double>(options_.lines_divisor) * options_.time_divisor;
    // A whole micro-batch is one sample of the task, whose noise would be work for real.
    samples_of_one_ = static_cast<double>(run.batch.micro);
    run.batch.target /= run.batch.micro;
    run.batch.micro = 1;
    run.task.kind = "synthetic";
    run.task.model =
        fmt::format("bowl-{:.0f}", static_cast<double>(albert_large_elements) / smaller);
    run.task.data = fmt::format("noise-{:.0f}ms",
                                std::max(1.0, 1000 * samples_of_one_ / options_.samples_per_s));
    run.evaluate_every = 0;
    run.checkpoint_every = 0;
    std::ofstream file(folder_ + "/run.toml");
    file << collab::to_toml(run);
    if (!file.flush())
        return make_error(ErrorKind::local_fault, "cannot write {}/run.toml", folder_);
    return {};
}

std::vector<std::string> PaperProcesses::words(std::size_t index) const {
    std::vector<std::string> words;
    if (index == 0)
        words = {"host", folder_ + "/run.toml"};
    else
        words = {seats_[index].trains ? "join" : "assist", join_};
    if (!setup_.equal_parts) return words;
    // Who grants the same as all others gets the same part as all others.
    double slowest = unlimited_bytes_per_s;
    for (const LinkLine& line : lines_.lines)
        slowest = std::min({slowest, line.up_bytes_per_s, line.down_bytes_per_s});
    const std::string granted = fmt::format("{:.4f}", slowest / 4 / bytes_of_megabit);
    words.insert(words.end(), {"--max-up", granted, "--max-down", granted});
    return words;
}

Ok PaperProcesses::start(std::size_t index) {
    Seat& seat = seats_[index];
    const PeerPlace place{.prefix = Namespaces::prefix(topology_->machine(index)),
                          .listen = fmt::format("/ip4/{}/tcp/4001", LinkTopology::ip(index))};
    // A part-timer who comes again is a new peer: it has kept nothing.
    const std::string name = fmt::format("{}-{}", seat.name, ++seat.lives);
    DEDLOC_TRY(seat.peer, PeerProcess::start(options_.program, words(index), folder_, name, place));
    seat.leaves = false;
    return {};
}

void PaperProcesses::book(const Seat& seat, const collab::Event& event) {
    if (event.kind == "joined" || event.kind == "run_started") joined_.insert(seat.name);
    if (event.kind == "reduced") ++rounds_of_aggregators_;
    if (event.kind != "step") return;
    std::uint64_t number = 0;
    double loss = 0;
    StepBooked step;
    step.first_s = event.time;
    for (const auto& [name, value] : event.fields) {
        if (name == "step") number = static_cast<std::uint64_t>(std::get<std::int64_t>(value));
        if (name == "samples") step.samples = std::get<double>(value) * samples_of_one_;
        if (name == "members") step.members = static_cast<double>(std::get<std::int64_t>(value));
        if (name == "loss") loss = std::get<double>(value);
        if (name == "state_hash") step.hash = std::get<std::string>(value);
    }
    StepBooked& booked = steps_.emplace(number, step).first->second;
    booked.first_s = std::min(booked.first_s, step.first_s);
    if (booked.hash != step.hash) identical_ = false;
    if (loss > 0) {  // 0: it has computed nothing yet
        booked.loss_sum += loss;
        booked.losses += 1;
    }
}

Ok PaperProcesses::look() {
    for (Seat& seat : seats_) {
        if (!seat.peer) continue;
        for (const collab::Event& event : seat.peer->look()) book(seat, event);
        if (seat.peer->process().running()) continue;
        if (!seat.leaves)
            return make_error(
                ErrorKind::local_fault, "{} ended: {}", seat.name, seat.peer->last_error());
        for (const collab::Event& event : seat.peer->look()) book(seat, event);
        seat.peer.reset();
    }
    return {};
}

// Until all who are there from the start take part, and plans know their lines.
Ok PaperProcesses::gather() {
    const auto begun = SteadyClock::now();
    DEDLOC_TRY_VOID(start(0));
    while ((join_ = seats_[0].peer->join_string()).empty()) {
        DEDLOC_TRY_VOID(look());
        if (seconds_since(begun) > host_patience_s)
            return make_error(ErrorKind::timeout, "the host gives no join string");
        std::this_thread::sleep_for(look_every);
    }
    const std::size_t there = setup_.trainers.size() + setup_.aggregators.size();
    std::size_t started = 1;
    std::uint64_t together = 0;  // the first step of all
    while (together == 0 || newest() < together + settling_steps) {
        DEDLOC_TRY_VOID(look());
        // As many newcomers at a time as there are peers to load the state from.
        while (started < there && started - joined_.size() < joined_.size())
            DEDLOC_TRY_VOID(start(started++));
        const bool all =
            joined_.size() == there && !steps_.empty() &&
            steps_.rbegin()->second.members >= static_cast<double>(setup_.trainers.size());
        if (together == 0 && all) together = newest();
        if (seconds_since(begun) > gather_patience_s)
            return make_error(ErrorKind::timeout,
                              "{} of {} peers came together in {:.0f} s",
                              joined_.size(),
                              there,
                              gather_patience_s);
        std::this_thread::sleep_for(look_every);
    }
    first_step_ = newest();
    return {};
}

Ok PaperProcesses::come_and_go(double now_s) {
    for (std::size_t i = seats_.size() - setup_.part_time.size(); i < seats_.size(); ++i) {
        Seat& seat = seats_[i];
        if (now_s < seat.next_s) continue;
        if (!seat.peer) {
            DEDLOC_TRY_VOID(start(i));
            seat.next_s = now_s + part_time_stays_s / options_.time_divisor;
        } else if (!seat.leaves) {
            seat.peer->process().send(SIGTERM);
            seat.leaves = true;
            seat.next_s = now_s + part_time_away_s / options_.time_divisor;
        }
    }
    return {};
}

Ok PaperProcesses::make_steps() {
    const auto begun = SteadyClock::now();
    for (std::size_t i = 0; i < setup_.part_time.size(); ++i)
        seats_[seats_.size() - setup_.part_time.size() + i].next_s =
            part_time_first_s * static_cast<double>(i + 1) / options_.time_divisor;
    auto stepped = begun;
    std::uint64_t seen = first_step_;
    while (newest() < first_step_ + options_.steps) {
        DEDLOC_TRY_VOID(look());
        DEDLOC_TRY_VOID(come_and_go(seconds_since(begun)));
        if (newest() > seen) {
            fmt::print(stderr,
                       "{}: step {} of {}, {:.1f} s\n",
                       setup_.name,
                       newest() - first_step_,
                       options_.steps,
                       seconds_since(stepped));
            stepped = SteadyClock::now();
            seen = newest();
        }
        if (seconds_since(stepped) > step_patience_s)
            return make_error(
                ErrorKind::timeout, "{}: no step in {:.0f} s", setup_.name, step_patience_s);
        std::this_thread::sleep_for(look_every);
    }
    return look();  // what slower ones say of the last step, as far as it is written
}

PaperRun PaperProcesses::result() const {
    PaperRun run;
    run.identical = identical_;
    run.rounds_of_aggregators = rounds_of_aggregators_;
    const double start_s = steps_.at(first_step_).first_s;
    double last_s = start_s;
    double computing = 0;
    for (auto at = steps_.find(first_step_); at != steps_.end(); ++at) {
        const StepBooked& booked = at->second;
        PaperStep step;
        step.at_s = booked.first_s - start_s;
        step.samples = booked.samples;
        step.members = booked.members;
        step.loss = booked.losses > 0 ? booked.loss_sum / booked.losses : 0;
        const double computed_s =
            booked.members > 0 ? booked.samples / booked.members / options_.samples_per_s : 0;
        if (at->first > first_step_) {
            step.round_s = std::max(0.0, booked.first_s - last_s - computed_s);
            computing += computed_s;
        }
        last_s = booked.first_s;
        run.steps.push_back(step);
    }
    if (last_s > start_s) run.compute_share = computing / (last_s - start_s);
    return run;
}

Result<PaperRun> PaperProcesses::run() {
    DEDLOC_TRY_VOID(lay_lines());
    DEDLOC_TRY_VOID(write_run());
    DEDLOC_TRY_VOID(gather());
    DEDLOC_TRY_VOID(make_steps());
    return result();
}

}  // namespace

Result<PaperRun> run_paper_processes(const PaperProcessesOptions& options,
                                     const PaperSetup& setup) {
    PaperProcesses processes(options, setup);
    return processes.run();
}

}  // namespace dedloc::lab
