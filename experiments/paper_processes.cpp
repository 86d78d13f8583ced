#include "experiments/paper_processes.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <set>
#include <signal.h>
#include <thread>

#include "tests/netns/link_topology.h"
#include "tests/process/peer_process.h"
#include "tests/process/process_folder.h"

namespace dedloc::lab {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr double host_timeout_s = 60;
constexpr double gather_timeout_s = 600;
constexpr double step_timeout_s = 240;
constexpr double leave_timeout_s = 20;
constexpr std::size_t settling_steps = 3;  // until plans know the lines
constexpr double unlimited_bytes_per_s = 125e6;
constexpr double bytes_of_megabit = 1e6 / 8;
constexpr auto poll_every = std::chrono::milliseconds(20);

double seconds_since(SteadyClock::time_point then) {
    return std::chrono::duration<double>(SteadyClock::now() - then).count();
}

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
    Ok poll();
    void book(const Seat& seat, const events::Event& event);
    std::vector<std::string> words(std::size_t index) const;
    PaperRun result() const;

    const PaperProcessesOptions& options_;
    const PaperSetup& setup_;
    std::string folder_;
    std::unique_ptr<LinkTopology> topology_;
    LinkOptions lines_;
    std::vector<VirtualLine> rates_;  // of the same lines
    std::vector<Seat> seats_;
    std::string join_;
    StepBook book_;
    std::set<std::string> joined_;
    std::uint64_t first_step_ = 0;  // that counts
    double samples_of_one_ = 1;     // of the synthetic task
};

PaperProcesses::~PaperProcesses() {
    for (Seat& seat : seats_)
        if (seat.peer) seat.peer->process().send(SIGTERM);
    const auto asked = SteadyClock::now();
    for (Seat& seat : seats_)
        if (seat.peer)
            (void)seat.peer->process().wait_for(
                std::max(0.0, leave_timeout_s - seconds_since(asked)));
    seats_.clear();
    if (!folder_.empty()) end_process_folder(folder_, false);
}

Ok PaperProcesses::lay_lines() {
    const auto add = [this](const std::vector<VirtualLine>& lines, const char* name, bool trains) {
        for (std::size_t i = 0; i < lines.size(); ++i) {
            const VirtualLine line =
                lines[i].times(1.0 / static_cast<double>(options_.lines_divisor));
            rates_.push_back(line);
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
    run::RunFile run =
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
    file << run::to_toml(run);
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
    words.insert(words.end(), {"--congestion-control", "cubic"});  // as on most machines at home
    if (!setup_.equal_parts) return words;
    const std::string granted =
        fmt::format("{:.4f}", equal_grant(rates_).up_bytes_per_s / bytes_of_megabit);
    words.insert(words.end(), {"--plan-up", granted, "--plan-down", granted});
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

void PaperProcesses::book(const Seat& seat, const events::Event& event) {
    if (event.is<events::Joined, events::RunStarted>()) joined_.insert(seat.name);
    book_.take(event, event.time);
}

Ok PaperProcesses::poll() {
    for (Seat& seat : seats_) {
        if (!seat.peer) continue;
        for (const events::Event& event : seat.peer->poll()) book(seat, event);
        if (seat.peer->process().running()) continue;
        if (!seat.leaves)
            return make_error(
                ErrorKind::local_fault, "{} ended: {}", seat.name, seat.peer->last_error());
        for (const events::Event& event : seat.peer->poll()) book(seat, event);
        seat.peer.reset();
    }
    return {};
}

// Until all who are there from the start take part, and plans know their lines.
Ok PaperProcesses::gather() {
    const auto begun = SteadyClock::now();
    DEDLOC_TRY_VOID(start(0));
    while ((join_ = seats_[0].peer->join_string()).empty()) {
        DEDLOC_TRY_VOID(poll());
        if (seconds_since(begun) > host_timeout_s)
            return make_error(ErrorKind::timeout, "the host gives no join string");
        std::this_thread::sleep_for(poll_every);
    }
    const std::size_t there = setup_.trainers.size() + setup_.aggregators.size();
    std::size_t started = 1;
    std::uint64_t together = 0;  // the first step of all
    while (together == 0 || book_.newest() < together + settling_steps) {
        DEDLOC_TRY_VOID(poll());
        // As many newcomers at a time as there are peers to load the state from.
        while (started < there && started - joined_.size() < joined_.size())
            DEDLOC_TRY_VOID(start(started++));
        const bool all =
            joined_.size() == there && book_.newest_members() >= setup_.trainers.size();
        if (together == 0 && all) together = book_.newest();
        if (seconds_since(begun) > gather_timeout_s)
            return make_error(ErrorKind::timeout,
                              "{} of {} peers came together in {:.0f} s",
                              joined_.size(),
                              there,
                              gather_timeout_s);
        std::this_thread::sleep_for(poll_every);
    }
    first_step_ = book_.newest();
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
    while (book_.newest() < first_step_ + options_.steps) {
        DEDLOC_TRY_VOID(poll());
        DEDLOC_TRY_VOID(come_and_go(seconds_since(begun)));
        if (book_.newest() > seen) {
            fmt::print(stderr,
                       "{}: step {} of {}, {:.1f} s\n",
                       setup_.name,
                       book_.newest() - first_step_,
                       options_.steps,
                       seconds_since(stepped));
            stepped = SteadyClock::now();
            seen = book_.newest();
        }
        if (seconds_since(stepped) > step_timeout_s)
            return make_error(
                ErrorKind::timeout, "{}: no step in {:.0f} s", setup_.name, step_timeout_s);
        std::this_thread::sleep_for(poll_every);
    }
    return poll();  // what slower ones say of the last step, as far as it is written
}

PaperRun PaperProcesses::result() const {
    PaperRun run;
    run.identical = book_.identical();
    run.rounds_of_aggregators = book_.rounds_of_aggregators();
    run.steps = book_.steps(first_step_);
    const double start_s = run.steps.front().at_s;
    double last_s = 0;
    double computing = 0;
    for (BookedStep& step : run.steps) {
        step.at_s -= start_s;
        step.samples *= samples_of_one_;
        if (step.step > first_step_) {
            const double members = std::max(1.0, static_cast<double>(step.members));
            const double computed_s = step.samples / members / options_.samples_per_s;
            step.round_s = std::max(0.0, step.at_s - last_s - computed_s);
            computing += computed_s;
        }
        last_s = step.at_s;
    }
    if (last_s > 0) run.compute_share = computing / last_s;
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
