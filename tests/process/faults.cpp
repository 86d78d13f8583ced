#include "tests/process/faults.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "dedloc/measure/median.h"
#include "dedloc/monitor/json_line.h"

#include "tests/common/exit_codes.h"
#include "tests/process/bad_process.h"
#include "tests/process/fault_run.h"
#include "tests/process/process_folder.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t problems_shown_max = 20;

struct Total {
    int repeats = 0;
    std::map<FaultKind, int> count;
    int kills_mid_round = 0;
    int disturbed = 0;
    std::uint64_t steps = 0;
    std::uint64_t peers_judged = 0;
    double samples_judged = 0;
    std::map<FaultKind, double> late_ms_max;
    double recovery_ms_max = 0;
    double deadline_ms = 0;
    std::vector<double> normal_ms;
    std::vector<double> round_ms;
    std::vector<std::string> problems;

    int faults() const {
        int sum = 0;
        for (const auto& [kind, number] : count) sum += number;
        return sum;
    }
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
                const std::size_t before = run.faults().size();
                for (const FaultKind kind :
                     run.draw(/*anybody_comes_and_goes=*/command_.minutes > 0))
                    if (run.good()) run.let_happen(kind, command_.stop_seconds);
                tell(run, number, before);
            }
            run.end();
            add(run);
            // Without a single repeat the run could not even start; the next would not, either.
            if (!run.good() && run.faults().empty()) return;
        }
    }

    void tell(const FaultRun& run, int number, std::size_t first) {
        const std::lock_guard lock(mutex_);
        ++total_.repeats;
        std::FILE* out = command_.json ? stderr : stdout;
        for (std::size_t i = first; i < run.faults().size(); ++i) {
            const FaultSeen& fault = run.faults()[i];
            fmt::print(out,
                       "{:4.0f} s  run {}: {} {}: late {:.0f} ms (a step: {:.0f} ms), all take "
                       "part after {:.0f} ms{}\n",
                       seconds(),
                       number,
                       to_string(fault.kind),
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
        total_.peers_judged += run.peers_judged();
        total_.samples_judged += run.samples_judged();
        total_.round_ms.push_back(run.round_ms_median());
        for (const FaultSeen& fault : run.faults()) {
            ++total_.count[fault.kind];
            if (fault.kind == FaultKind::kill && fault.mid_round) ++total_.kills_mid_round;
            total_.deadline_ms = std::max(total_.deadline_ms, fault.deadline_ms);
            total_.recovery_ms_max = std::max(total_.recovery_ms_max, fault.recovery_ms);
            total_.normal_ms.push_back(fault.normal_ms);
            if (fault.disturbed) {
                ++total_.disturbed;
                continue;
            }
            double& late = total_.late_ms_max[fault.kind];
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

void print_json(Total total, bool held, double seconds) {
    std::vector<std::string> shown = total.problems;
    if (shown.size() > problems_shown_max) shown.resize(problems_shown_max);
    const nlohmann::ordered_json json{{"ok", held},
                                      {"repeats", total.repeats},
                                      {"kills", total.count[FaultKind::kill]},
                                      {"kills_mid_round", total.kills_mid_round},
                                      {"stops", total.count[FaultKind::stop]},
                                      {"rejoins", total.count[FaultKind::rejoin]},
                                      {"joins", total.count[FaultKind::join]},
                                      {"leaves", total.count[FaultKind::leave]},
                                      {"disturbed", total.disturbed},
                                      {"steps", total.steps},
                                      {"peers_judged", total.peers_judged},
                                      {"samples_judged", total.samples_judged},
                                      {"late_ms_kill_max", total.late_ms_max[FaultKind::kill]},
                                      {"late_ms_stop_max", total.late_ms_max[FaultKind::stop]},
                                      {"late_ms_rejoin_max", total.late_ms_max[FaultKind::rejoin]},
                                      {"late_ms_join_max", total.late_ms_max[FaultKind::join]},
                                      {"late_ms_leave_max", total.late_ms_max[FaultKind::leave]},
                                      {"deadline_ms", total.deadline_ms},
                                      {"step_ms", measure::median(total.normal_ms)},
                                      {"round_ms", measure::median(total.round_ms)},
                                      {"recovery_ms_max", total.recovery_ms_max},
                                      {"failures", total.problems.size()},
                                      {"problems", shown},
                                      {"seconds", seconds}};
    fmt::print("{}\n", monitor::json_line(json));
}

void print_words(std::FILE* out, const Total& total) {
    fmt::print(
        out, "{} repeats, {} steps; the others were late by at most", total.repeats, total.steps);
    for (const auto& [kind, number] : total.count) {
        const auto late = total.late_ms_max.find(kind);
        fmt::print(out,
                   " {:.0f} ms ({} × {}),",
                   late == total.late_ms_max.end() ? 0 : late->second,
                   number,
                   to_string(kind));
    }
    fmt::print(
        out,
        " {} kills in mid-round; the deadline was {:.0f} ms; {:.0f} samples of {} peers were "
        "looked at; {} failures\n",
        total.kills_mid_round,
        total.deadline_ms,
        total.samples_judged,
        total.peers_judged,
        total.problems.size());
    if (total.peers_judged == 0 || total.samples_judged <= 0)
        fmt::print(out, "whether samples were lost was not judged: no certificate names any\n");
    if (total.disturbed > 0)
        fmt::print(out,
                   "{} of {} faults could not be judged: other virtual machines had more than a "
                   "fifth of the processors while the step was late\n",
                   total.disturbed,
                   total.faults());
}

}  // namespace

int run_faults(const FaultsCommand& given) {
    FaultsCommand command = given;
    if (!command.bad.empty()) return run_bad_process(command);
    if (command.repeat == 0)
        command.repeat = command.minutes > 0 ? std::numeric_limits<int>::max() : 10;
    const auto folder = process_folder(command.directory, "faults");
    if (!folder) {
        fmt::print(stderr, "dedloc: {}\n", folder.error().message());
        return exit_disk;
    }
    Faults faults(command, command.program.empty() ? dedloc_program() : command.program, *folder);
    const Total total = faults.run();
    const int judged = total.faults() - total.disturbed;
    const bool held = total.problems.empty() && judged > total.disturbed &&
                      total.peers_judged > 0 && total.samples_judged > 0;
    print_words(command.json ? stderr : stdout, total);
    if (command.json) print_json(total, held, faults.seconds());
    end_process_folder(*folder, /*keep=*/!held || !command.directory.empty());
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
