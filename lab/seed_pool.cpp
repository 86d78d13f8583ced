#include "lab/seed_pool.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dedloc/monitor/json_line.h"

namespace dedloc::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int workers_max = 256;

SeedResult from_line(const Json& line) {
    SeedResult result;
    result.violations = line.at("violations").get<std::vector<std::string>>();
    result.peers = line.at("peers");
    result.commits = line.at("commits");
    result.aborts = line.at("aborts");
    result.branches = line.at("branches");
    result.faults = line.at("faults");
    result.averages = line.at("averages");
    result.aggregators = line.value("aggregators", std::uint64_t{0});
    result.parts_of_aggregators = line.value("parts_of_aggregators", std::uint64_t{0});
    result.averages_of_grids = line.value("averages_of_grids", std::uint64_t{0});
    result.delayed = line.value("delayed", std::uint64_t{0});
    result.samples_ahead = line.value("samples_ahead", std::uint64_t{0});
    result.messages = line.at("messages");
    result.trace = line.at("trace");
    result.extinct = line.at("extinct");
    result.judged = line.at("judged");
    result.gap = line.at("gap");
    result.recovered = line.at("recovered");
    return result;
}

// One worker process: asks for nothing, gets seeds on its standard input, answers lines.
[[noreturn]] void work(int read_end, int write_end, const SeedJob& job) {
    std::uint64_t seed = 0;
    while (::read(read_end, &seed, sizeof seed) == sizeof seed) {
        const std::string line = to_line(seed, job(seed)) + "\n";
        std::size_t written = 0;
        while (written < line.size()) {
            const auto count = ::write(write_end, line.data() + written, line.size() - written);
            if (count <= 0) ::_exit(1);
            written += static_cast<std::size_t>(count);
        }
    }
    ::_exit(0);
}

}  // namespace

struct SeedPool::Worker {
    pid_t process = -1;
    int to = -1;
    int from = -1;
    std::uint64_t seed = 0;  // at work on; meaningful while busy
    bool busy = false;
    RealTime::time_point since;
    std::string unread;
};

std::string to_line(std::uint64_t number, const SimulationResult& result) {
    const Json line = {{"seed", number},
                       {"violations", result.violations},
                       {"peers", result.peers},
                       {"commits", result.commits},
                       {"aborts", result.aborts},
                       {"branches", result.branches},
                       {"faults", result.faults},
                       {"averages", result.averages_checked},
                       {"averages_of_grids", result.averages_of_grids},
                       {"aggregators", result.aggregators},
                       {"parts_of_aggregators", result.parts_of_aggregators},
                       {"delayed", result.delayed ? 1 : 0},
                       {"samples_ahead", result.samples_ahead},
                       {"messages", result.messages},
                       {"trace", result.trace},
                       {"extinct", result.extinct ? 1 : 0},
                       {"judged", result.samples_judged},
                       {"gap", result.step_gap_max_s},
                       {"recovered", result.recovered_in_s}};
    return monitor::json_line(line);
}

bool simulate_traced(std::uint64_t number, SimulationOptions options) {
    options.trace = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
    const SimulationResult result = simulate(options);
    for (const std::string& violation : result.violations)
        std::printf("VIOLATION %s\n", violation.c_str());
    std::printf("%s\n", to_line(number, result).c_str());
    return !result.failed();
}

SeedPool::SeedPool(SeedPoolOptions options, SeedJob job)
    : options_(std::move(options)), job_(std::move(job)) {}

SeedPool::~SeedPool() = default;

bool SeedPool::load_resumed() {
    if (options_.resume_file.empty()) return true;
    std::ifstream file(options_.resume_file);
    std::string line;
    while (std::getline(file, line)) {
        const Json parsed = Json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (parsed.is_discarded() || !parsed.contains("seed")) continue;  // a torn last line
        results_[parsed.at("seed")] = from_line(parsed);
    }
    resume_.open(options_.resume_file, std::ios::app);
    return static_cast<bool>(resume_);
}

bool SeedPool::start(Worker& worker) {
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
        work(down[0], up[1], job_);
    }
    ::close(down[0]);
    ::close(up[1]);
    worker.to = down[1];
    worker.from = up[0];
    worker.unread.clear();
    return true;
}

void SeedPool::stop(Worker& worker) {
    if (worker.process <= 0) return;
    ::close(worker.to);
    ::close(worker.from);
    ::kill(worker.process, SIGKILL);
    ::waitpid(worker.process, nullptr, 0);
    worker.process = -1;
    worker.busy = false;
}

void SeedPool::feed(Worker& worker) {
    const std::uint64_t end = options_.first + options_.count;
    while (next_ < end && results_.contains(next_)) ++next_;
    if (next_ >= end) return;
    if (worker.process <= 0 && !start(worker)) return;
    worker.seed = next_++;
    worker.busy = true;
    worker.since = RealTime::now();
    if (::write(worker.to, &worker.seed, sizeof worker.seed) != sizeof worker.seed)
        failed(worker, "the worker process is gone");
}

void SeedPool::take(const std::string& line) {
    const Json parsed = Json::parse(line);
    const std::uint64_t seed = parsed.at("seed");
    results_[seed] = from_line(parsed);
    if (resume_.is_open()) resume_ << line << std::endl;
    if (results_[seed].violations.empty()) return;
    ++failures_;
    if (options_.stop_at_first_failure && failures_ > 1) return;
    std::fprintf(
        stderr, "\n%s %llu:\n", options_.what.c_str(), static_cast<unsigned long long>(seed));
    for (const std::string& violation : results_[seed].violations)
        std::fprintf(stderr, "  %s\n", violation.c_str());
    std::fprintf(stderr, "  again: %s\n", options_.again(seed).c_str());
}

void SeedPool::failed(Worker& worker, const std::string& why) {
    const std::uint64_t seed = worker.seed;
    stop(worker);
    SimulationResult result;
    result.violations.push_back(why);
    take(to_line(seed, result));
}

void SeedPool::read_from(Worker& worker) {
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

void SeedPool::progress(bool last) {
    if (::isatty(STDERR_FILENO) == 0 && !last) return;
    const auto now = RealTime::now();
    if (!last && now - shown_ < std::chrono::milliseconds(500)) return;
    shown_ = now;
    std::fprintf(stderr,
                 "\r%zu of %llu %ss, %llu failed, %.0f s ",
                 results_.size(),
                 static_cast<unsigned long long>(options_.count),
                 options_.what.c_str(),
                 static_cast<unsigned long long>(failures_),
                 std::chrono::duration<double>(now - begun_).count());
    if (last) std::fputs("\n", stderr);
}

void SeedPool::run() {
    ::signal(SIGPIPE, SIG_IGN);
    next_ = options_.first;
    workers_.resize(static_cast<std::size_t>(std::clamp(options_.workers, 1, workers_max)));
    for (;;) {
        // A planted bug is found once; more seeds would only say it again.
        const bool found = options_.stop_at_first_failure && failures_ > 0;
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
            else if (at_work.count() > options_.seed_seconds_max)
                failed(*busy[i],
                       fmt::format("it did not end within {:.0f} s", options_.seed_seconds_max));
        }
        progress(false);
    }
    for (Worker& worker : workers_) stop(worker);
    progress(true);
}

}  // namespace dedloc::lab
