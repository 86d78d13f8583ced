#include "lab/simulate_command.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dedloc/base/log.h"

#include "lab/planted.h"

namespace dedloc::lab {
namespace {

using Json = nlohmann::ordered_json;
using RealTime = std::chrono::steady_clock;

constexpr int exit_bad_input = 2;
constexpr int exit_check_failed = 9;
constexpr int workers_max = 256;

struct SeedResult {
    std::vector<std::string> violations;
    std::uint64_t peers = 0, commits = 0, aborts = 0, branches = 0, faults = 0, averages = 0;
    std::uint64_t messages = 0, trace = 0, extinct = 0;
    double judged = 0, gap = 0, recovered = 0;
};

Json to_line(std::uint64_t seed, const SimulationResult& result) {
    return {{"seed", seed},
            {"violations", result.violations},
            {"peers", result.peers},
            {"commits", result.commits},
            {"aborts", result.aborts},
            {"branches", result.branches},
            {"faults", result.faults},
            {"averages", result.averages_checked},
            {"messages", result.messages},
            {"trace", result.trace},
            {"extinct", result.extinct ? 1 : 0},
            {"judged", result.samples_judged},
            {"gap", result.step_gap_max_s},
            {"recovered", result.recovered_in_s}};
}

SeedResult from_line(const Json& line) {
    SeedResult result;
    result.violations = line.at("violations").get<std::vector<std::string>>();
    result.peers = line.at("peers");
    result.commits = line.at("commits");
    result.aborts = line.at("aborts");
    result.branches = line.at("branches");
    result.faults = line.at("faults");
    result.averages = line.at("averages");
    result.messages = line.at("messages");
    result.trace = line.at("trace");
    result.extinct = line.at("extinct");
    result.judged = line.at("judged");
    result.gap = line.at("gap");
    result.recovered = line.at("recovered");
    return result;
}

bool parse_peers(const std::string& text, SimulationOptions& options) {
    const std::size_t dash = text.find('-');
    const std::string low = text.substr(0, dash);
    const std::string high = dash == std::string::npos ? low : text.substr(dash + 1);
    const auto number = [](const std::string& digits, std::size_t& value) {
        const auto end = digits.data() + digits.size();
        return std::from_chars(digits.data(), end, value).ptr == end && !digits.empty();
    };
    return number(low, options.peers_min) && number(high, options.peers_max) &&
           options.peers_min >= 2 && options.peers_min <= options.peers_max &&
           options.peers_max <= 64;
}

// One worker process: asks for nothing, gets seeds on its standard input, answers lines.
[[noreturn]] void work(int read_end, int write_end, SimulationOptions options) {
    std::uint64_t seed = 0;
    while (::read(read_end, &seed, sizeof seed) == sizeof seed) {
        options.seed = seed;
        const std::string line = to_line(seed, simulate(options)).dump() + "\n";
        std::size_t written = 0;
        while (written < line.size()) {
            const auto count = ::write(write_end, line.data() + written, line.size() - written);
            if (count <= 0) ::_exit(1);
            written += static_cast<std::size_t>(count);
        }
    }
    ::_exit(0);
}

struct Worker {
    pid_t process = -1;
    int to = -1;
    int from = -1;
    std::uint64_t seed = 0;  // at work on; meaningful while busy
    bool busy = false;
    RealTime::time_point since;
    std::string unread;
};

class Pool {
  public:
    Pool(const SimulateCommand& command, SimulationOptions options)
        : command_(command), options_(std::move(options)) {}

    std::map<std::uint64_t, SeedResult>& results() { return results_; }
    bool load_resumed();
    void run();

  private:
    bool start(Worker& worker);
    void stop(Worker& worker);
    void feed(Worker& worker);
    void read_from(Worker& worker);
    void failed(Worker& worker, const std::string& why);
    void take(const std::string& line);
    void progress(bool last);

    const SimulateCommand& command_;
    SimulationOptions options_;
    std::map<std::uint64_t, SeedResult> results_;
    std::vector<Worker> workers_;
    std::uint64_t next_ = 0;
    std::ofstream resume_;
    std::uint64_t failures_ = 0;
    RealTime::time_point begun_ = RealTime::now();
    RealTime::time_point shown_ = begun_;
};

bool Pool::load_resumed() {
    if (command_.resume_file.empty()) return true;
    std::ifstream file(command_.resume_file);
    std::string line;
    while (std::getline(file, line)) {
        const Json parsed = Json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (parsed.is_discarded() || !parsed.contains("seed")) continue;  // a torn last line
        results_[parsed.at("seed")] = from_line(parsed);
    }
    resume_.open(command_.resume_file, std::ios::app);
    return static_cast<bool>(resume_);
}

bool Pool::start(Worker& worker) {
    int down[2];
    int up[2];
    if (::pipe2(down, O_CLOEXEC) != 0 || ::pipe2(up, O_CLOEXEC) != 0) return false;
    std::fflush(nullptr);
    worker.process = ::fork();
    if (worker.process < 0) return false;
    if (worker.process == 0) {
        ::close(down[1]);
        ::close(up[0]);
        // The ends towards other workers must not stay open here.
        for (const Worker& other : workers_)
            if (&other != &worker && other.process > 0) {
                ::close(other.to);
                ::close(other.from);
            }
        work(down[0], up[1], options_);
    }
    ::close(down[0]);
    ::close(up[1]);
    worker.to = down[1];
    worker.from = up[0];
    worker.unread.clear();
    return true;
}

void Pool::stop(Worker& worker) {
    if (worker.process <= 0) return;
    ::close(worker.to);
    ::close(worker.from);
    ::kill(worker.process, SIGKILL);
    ::waitpid(worker.process, nullptr, 0);
    worker.process = -1;
    worker.busy = false;
}

void Pool::feed(Worker& worker) {
    const std::uint64_t end = command_.first + command_.seeds;
    while (next_ < end && results_.contains(next_)) ++next_;
    if (next_ >= end) return;
    if (worker.process <= 0 && !start(worker)) return;
    worker.seed = next_++;
    worker.busy = true;
    worker.since = RealTime::now();
    if (::write(worker.to, &worker.seed, sizeof worker.seed) != sizeof worker.seed)
        failed(worker, "the worker process is gone");
}

void Pool::take(const std::string& line) {
    const Json parsed = Json::parse(line);
    const std::uint64_t seed = parsed.at("seed");
    results_[seed] = from_line(parsed);
    if (resume_.is_open()) resume_ << line << std::endl;
    if (results_[seed].violations.empty()) return;
    ++failures_;
    if (!command_.plant.empty() && failures_ > 1) return;
    std::fprintf(stderr, "\nseed %llu:\n", static_cast<unsigned long long>(seed));
    for (const std::string& violation : results_[seed].violations)
        std::fprintf(stderr, "  %s\n", violation.c_str());
    std::fprintf(stderr,
                 "  again: dedloc lab simulate --first %llu --seeds 1 --peers %s%s%s --trace\n",
                 static_cast<unsigned long long>(seed),
                 command_.peers.c_str(),
                 command_.delayed ? " --delayed" : "",
                 command_.plant.empty() ? "" : (" --plant " + command_.plant).c_str());
}

void Pool::failed(Worker& worker, const std::string& why) {
    const std::uint64_t seed = worker.seed;
    stop(worker);
    SimulationResult result;
    result.violations.push_back(why);
    take(to_line(seed, result).dump());
}

void Pool::read_from(Worker& worker) {
    char buffer[65536];
    const auto count = ::read(worker.from, buffer, sizeof buffer);
    if (count <= 0) {
        failed(worker, "the simulation crashed (its message is above)");
        return;
    }
    worker.unread.append(buffer, static_cast<std::size_t>(count));
    const std::size_t end = worker.unread.find('\n');
    if (end == std::string::npos) return;
    take(worker.unread.substr(0, end));
    worker.unread.erase(0, end + 1);
    worker.busy = false;
}

void Pool::progress(bool last) {
    if (::isatty(STDERR_FILENO) == 0 && !last) return;
    const auto now = RealTime::now();
    if (!last && now - shown_ < std::chrono::milliseconds(500)) return;
    shown_ = now;
    std::fprintf(stderr,
                 "\r%zu of %llu seeds, %llu failed, %.0f s ",
                 results_.size(),
                 static_cast<unsigned long long>(command_.seeds),
                 static_cast<unsigned long long>(failures_),
                 std::chrono::duration<double>(now - begun_).count());
    if (last) std::fputs("\n", stderr);
}

void Pool::run() {
    ::signal(SIGPIPE, SIG_IGN);
    next_ = command_.first;
    workers_.resize(static_cast<std::size_t>(std::clamp(command_.workers, 1, workers_max)));
    for (;;) {
        // A planted bug is found once; more seeds would only say it again.
        const bool found = !command_.plant.empty() && failures_ > 0;
        std::vector<pollfd> wait;
        std::vector<Worker*> busy;
        for (Worker& worker : workers_) {
            if (!worker.busy && !found) feed(worker);
            if (!worker.busy) continue;
            wait.push_back({worker.from, POLLIN, 0});
            busy.push_back(&worker);
        }
        if (busy.empty() || found) break;
        ::poll(wait.data(), wait.size(), 500);
        for (std::size_t i = 0; i < busy.size(); ++i) {
            const std::chrono::duration<double> at_work = RealTime::now() - busy[i]->since;
            if (wait[i].revents != 0)
                read_from(*busy[i]);
            else if (at_work.count() > command_.seed_seconds_max)
                failed(*busy[i],
                       fmt::format("it did not end within {:.0f} s", command_.seed_seconds_max));
        }
        progress(false);
    }
    for (Worker& worker : workers_) stop(worker);
    progress(true);
}

int run_traced(const SimulateCommand& command, SimulationOptions options) {
    bool failed = false;
    for (std::uint64_t i = 0; i < command.seeds; ++i) {
        options.seed = command.first + i;
        options.trace = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
        const SimulationResult result = simulate(options);
        for (const std::string& violation : result.violations)
            std::printf("VIOLATION %s\n", violation.c_str());
        std::printf("%s\n", to_line(options.seed, result).dump().c_str());
        failed = failed || result.failed();
    }
    return failed == command.plant.empty() ? exit_check_failed : 0;
}

Json summary(const SimulateCommand& command,
             const std::map<std::uint64_t, SeedResult>& results,
             double seconds) {
    SeedResult sum;
    std::uint64_t violations = 0;
    std::uint64_t first_violation = 0;
    for (const auto& [seed, result] : results) {
        if (seed < command.first || seed >= command.first + command.seeds) continue;
        sum.peers += 1;  // counts seeds
        if (!result.violations.empty() && ++violations == 1) first_violation = seed;
        sum.commits += result.commits;
        sum.aborts += result.aborts;
        sum.branches += result.branches;
        sum.faults += result.faults;
        sum.averages += result.averages;
        sum.messages += result.messages;
        sum.extinct += result.extinct;
        sum.judged += result.judged;
        sum.gap = std::max(sum.gap, result.gap);
        sum.recovered = std::max(sum.recovered, result.recovered);
        sum.trace = base::mix64(base::mix64(sum.trace ^ seed) ^ result.trace);
    }
    Json json{{"seeds", sum.peers},
              {"violations", violations},
              {"commits", sum.commits},
              {"aborts", sum.aborts},
              {"branches", sum.branches},
              {"faults", sum.faults},
              {"averages_checked", sum.averages},
              {"samples_judged", sum.judged},
              {"messages", sum.messages},
              {"extinct", sum.extinct},
              {"step_gap_max_s", sum.gap},
              {"recovered_max_s", sum.recovered},
              {"trace", fmt::format("{:016x}", sum.trace)},
              {"seconds", seconds}};
    if (violations > 0) json["first_violation"] = first_violation;
    if (!command.plant.empty()) {
        json["plant"] = command.plant;
        json["found"] = violations > 0;
    }
    return json;
}

}  // namespace

int run_simulate(const SimulateCommand& command, const std::string&) {
    SimulationOptions options;
    if (!parse_peers(command.peers, options)) {
        std::fprintf(stderr, "dedloc: --peers wants a number or a range like 5-20, 2 to 64\n");
        return exit_bad_input;
    }
    if (!command.plant.empty()) {
        const auto bugs = planted_bug(command.plant);
        if (!bugs) {
            std::fprintf(
                stderr, "dedloc: there is no bug '%s' to plant; there are:", command.plant.c_str());
            for (const std::string& name : planted_names())
                std::fprintf(stderr, " %s", name.c_str());
            std::fputs("\n", stderr);
            return exit_bad_input;
        }
        options.bugs = *bugs;
    }
    options.delayed = command.delayed;
    if (!command.trace) base::set_log_level(LogLevel::error);
    if (command.trace) return run_traced(command, options);
    const auto begun = RealTime::now();
    Pool pool(command, options);
    if (!pool.load_resumed()) {
        std::fprintf(stderr, "dedloc: %s cannot be written\n", command.resume_file.c_str());
        return exit_bad_input;
    }
    pool.run();
    const double seconds = std::chrono::duration<double>(RealTime::now() - begun).count();
    const Json json = summary(command, pool.results(), seconds);
    if (command.json) {
        std::printf("%s\n", json.dump().c_str());
    } else {
        for (const auto& [name, value] : json.items())
            std::printf("%-18s %s\n", name.c_str(), value.dump().c_str());
    }
    const bool violated = json.at("violations") != 0;
    return violated == command.plant.empty() ? exit_check_failed : 0;
}

}  // namespace dedloc::lab
