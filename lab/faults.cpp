#include "lab/faults.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "dedloc/monitor/json_line.h"

#include "lab/exit_codes.h"
#include "lab/fault_run.h"
#include "lab/median.h"
#include "lab/process_folder.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t problems_shown_max = 20;

struct Total {
    int repeats = 0;
    int kills = 0;
    int kills_mid_round = 0;
    int stops = 0;
    int disturbed = 0;
    std::uint64_t steps = 0;
    double late_ms_kill_max = 0;
    double late_ms_stop_max = 0;
    double recovery_ms_max = 0;
    double deadline_ms = 0;
    std::vector<double> normal_ms;
    std::vector<double> round_ms;
    std::vector<std::string> problems;
};

class Faults {
  public:
    Faults(const FaultsCommand& command, std::string program, std::string folder)
        : command_(command), program_(std::move(program)), folder_(std::move(folder)) {}

    Total run() {
        std::vector<std::thread> threads;
        for (int i = 0; i < std::min(command_.parallel, command_.repeat); ++i)
            threads.emplace_back([this] { work(); });
        for (std::thread& thread : threads) thread.join();
        return total_;
    }
    double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    }

  private:
    bool may_begin() {
        if (command_.minutes > 0 && seconds() > command_.minutes * 60) return false;
        return begun_repeats_++ < command_.repeat;
    }

    // One collaboration after the other; a new one only when the one before failed.
    void work() {
        bool more = may_begin();
        while (more) {
            const int number = ++runs_;
            FaultRun run(program_,
                         fmt::format("{}/run-{}", folder_, number),
                         command_.seed * 1000 + static_cast<std::uint64_t>(number));
            run.start();
            for (; more && run.good(); more = may_begin()) {
                run.stop_one(command_.stop_seconds);
                if (run.good()) run.kill_one();
                tell(run, number);
            }
            run.end();
            add(run);
            // Without a single repeat the run could not even start; the next would not, either.
            if (!run.good() && run.faults().empty()) return;
        }
    }

    void tell(const FaultRun& run, int number) {
        const std::lock_guard lock(mutex_);
        ++total_.repeats;
        std::FILE* out = command_.json ? stderr : stdout;
        for (std::size_t i = run.faults().size() >= 2 ? run.faults().size() - 2 : 0;
             i < run.faults().size();
             ++i) {
            const FaultSeen& fault = run.faults()[i];
            fmt::print(out,
                       "{:4.0f} s  run {}: {} {}: late {:.0f} ms (a step: {:.0f} ms), back after "
                       "{:.0f} ms{}\n",
                       seconds(),
                       number,
                       fault.kind == FaultKind::kill ? "SIGKILL" : "SIGSTOP",
                       fault.victim,
                       fault.late_ms,
                       fault.normal_ms,
                       fault.recovery_ms,
                       fault.kind == FaultKind::kill && fault.mid_round ? ", in mid-round" : "");
        }
        std::fflush(out);
    }

    void add(const FaultRun& run) {
        const std::lock_guard lock(mutex_);
        total_.steps += run.steps();
        total_.round_ms.push_back(run.round_ms_median());
        for (const FaultSeen& fault : run.faults()) {
            const bool kill = fault.kind == FaultKind::kill;
            (kill ? total_.kills : total_.stops) += 1;
            if (kill && fault.mid_round) ++total_.kills_mid_round;
            total_.deadline_ms = std::max(total_.deadline_ms, fault.deadline_ms);
            total_.recovery_ms_max = std::max(total_.recovery_ms_max, fault.recovery_ms);
            total_.normal_ms.push_back(fault.normal_ms);
            if (fault.disturbed) {
                ++total_.disturbed;
                continue;
            }
            double& late = kill ? total_.late_ms_kill_max : total_.late_ms_stop_max;
            late = std::max(late, fault.late_ms);
        }
        for (const std::string& problem : run.problems()) {
            fmt::print(stderr, "dedloc: {}\n", problem);
            total_.problems.push_back(problem);
        }
    }

    const FaultsCommand& command_;
    std::string program_;
    std::string folder_;
    std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
    std::atomic<int> begun_repeats_ = 0;
    std::atomic<int> runs_ = 0;
    std::mutex mutex_;
    Total total_;
};

void print_json(const Total& total, bool held, double seconds) {
    std::vector<std::string> shown = total.problems;
    if (shown.size() > problems_shown_max) shown.resize(problems_shown_max);
    const nlohmann::ordered_json json{{"ok", held},
                                      {"repeats", total.repeats},
                                      {"kills", total.kills},
                                      {"kills_mid_round", total.kills_mid_round},
                                      {"stops", total.stops},
                                      {"disturbed", total.disturbed},
                                      {"steps", total.steps},
                                      {"late_ms_kill_max", total.late_ms_kill_max},
                                      {"late_ms_stop_max", total.late_ms_stop_max},
                                      {"deadline_ms", total.deadline_ms},
                                      {"step_ms", median(total.normal_ms)},
                                      {"round_ms", median(total.round_ms)},
                                      {"recovery_ms_max", total.recovery_ms_max},
                                      {"failures", total.problems.size()},
                                      {"problems", shown},
                                      {"seconds", seconds}};
    fmt::print("{}\n", monitor::json_line(json));
}

}  // namespace

int run_faults(const FaultsCommand& given) {
    FaultsCommand command = given;
    if (command.repeat == 0)
        command.repeat = command.minutes > 0 ? std::numeric_limits<int>::max() : 10;
    const auto folder = process_folder(command.directory, "faults");
    if (!folder) {
        fmt::print(stderr, "dedloc: {}\n", folder.error().message());
        return exit_disk;
    }
    Faults faults(command, command.program.empty() ? own_program() : command.program, *folder);
    const Total total = faults.run();
    const int judged = total.kills + total.stops - total.disturbed;
    const bool held = total.problems.empty() && judged > total.disturbed;
    std::FILE* out = command.json ? stderr : stdout;
    fmt::print(out,
               "{} repeats, {} steps: the others were late by at most {:.0f} ms (SIGKILL, {} of {} "
               "in mid-round), {:.0f} ms (SIGSTOP); the deadline was {:.0f} ms; {} failures\n",
               total.repeats,
               total.steps,
               total.late_ms_kill_max,
               total.kills_mid_round,
               total.kills,
               total.late_ms_stop_max,
               total.deadline_ms,
               total.problems.size());
    if (total.disturbed > 0)
        fmt::print(out,
                   "{} of {} faults could not be judged: other virtual machines had more than a "
                   "fifth of the processors while the step was late\n",
                   total.disturbed,
                   total.kills + total.stops);
    if (command.json) print_json(total, held, faults.seconds());
    end_process_folder(*folder, /*keep=*/!held || !command.directory.empty());
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
