#include "tests/sim/seed_pool.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "dedloc/monitor/json_line.h"

namespace dedloc::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int workers_max = 256;

SeedResult from_line(const Json& line) {
    SeedResult result;
    result.violations = line.at("violations").get<std::vector<std::string>>();
    result.peers = line.at("peers");
    for (const SeedCount& one : seed_counts)
        if (one.in_older_files || line.contains(one.name)) result.*one.count = line.at(one.name);
    result.trace = line.at("trace");
    result.judged = line.at("judged");
    result.gap = line.at("gap");
    result.recovered = line.at("recovered");
    result.histories = line.value("histories", std::uint64_t{1});
    result.too_slow = line.value("too_slow", std::uint64_t{0});
    result.gap_second = line.value("gap_second", 0.0);
    result.methods = line.value("methods", result.methods);
    result.crashed = line.value("crashed", false);
    return result;
}

// One worker process: asks for nothing, gets seeds on its standard input, answers lines. Nobody
// would read them once `parent` is dead, and a seed may take long.
[[noreturn]] void work(pid_t parent, int read_end, int write_end, const SeedJob& job) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // it died before the line above
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

SeedResult seed_result(const SimulationResult& result) {
    SeedResult seed;
    seed.violations = result.violations;
    seed.peers = result.peers;
    seed.commits = result.commits;
    seed.aborts = result.aborts;
    seed.branches = result.branches;
    seed.faults = result.faults;
    seed.averages = result.averages_checked;
    seed.averages_of_grids = result.averages_of_grids;
    seed.averages_of_sums = result.averages_of_sums;
    seed.aggregators = result.aggregators;
    seed.parts_of_aggregators = result.parts_of_aggregators;
    seed.left_out = result.left_out;
    seed.delayed = result.delayed ? 1 : 0;
    seed.samples_ahead = result.samples_ahead;
    seed.messages = result.messages;
    seed.liars_judged = result.liars_judged;
    seed.honest_ordered = result.honest_ordered;
    seed.peer_steps = result.peer_steps;
    seed.checks = result.checks;
    seed.trace = result.trace;
    seed.extinct = result.extinct ? 1 : 0;
    seed.judged = result.samples_judged;
    seed.gap = result.step_gap_max_s;
    seed.recovered = result.recovered_in_s;
    return seed;
}

std::string to_line(std::uint64_t number, const SeedResult& result) {
    Json line = {{"seed", number}, {"violations", result.violations}, {"peers", result.peers}};
    for (const SeedCount& one : seed_counts) line[one.name] = result.*one.count;
    line["trace"] = result.trace;
    line["judged"] = result.judged;
    line["gap"] = result.gap;
    line["recovered"] = result.recovered;
    if (result.too_slow > 0) line["too_slow"] = result.too_slow;
    if (result.histories > 1) {
        line["histories"] = result.histories;
        line["gap_second"] = result.gap_second;
        line["methods"] = result.methods;
    }
    if (result.crashed) line["crashed"] = true;
    return monitor::json_line(line);
}

SimulationResult simulate_traced(std::uint64_t number, SimulationOptions options, bool messages) {
    if (messages)
        options.messages =
            [](TimePoint at, std::size_t from, std::size_t to, const std::string& method) {
                fmt::print("{:9.3f} n{} > n{} {}\n", to_seconds(at.since_start), from, to, method);
            };
    options.trace = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
    const SimulationResult result = simulate(options);
    for (const std::string& violation : result.violations)
        std::printf("VIOLATION %s\n", violation.c_str());
    std::printf("%s\n", to_line(number, seed_result(result)).c_str());
    return result;
}

SeedPool::SeedPool(SeedPoolOptions options, SeedJob job)
    : options_(std::move(options)), job_(std::move(job)) {}

SeedPool::~SeedPool() = default;

std::string SeedPool::header() const {
    Json options = Json::object();
    for (const auto& [name, value] : options_.decides) options[name] = value;
    return monitor::json_line(Json{{"options", std::move(options)}});
}

Ok SeedPool::check_header(const std::string& line) const {
    const Json parsed = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const Json options = parsed.is_object() ? parsed.value("options", Json()) : Json();
    if (!options.is_object()) {
        std::fprintf(
            stderr,
            "dedloc: %s does not say with which options its results were made; it is taken "
            "for granted that they were these\n",
            options_.resume_file.c_str());
        return {};
    }
    std::string differences;
    for (const auto& [name, value] : options_.decides) {
        if (!options.contains(name)) {
            fmt::print(stderr,
                       "dedloc: {} does not tell of which {} its results are; it is taken for "
                       "granted that it was this: {}\n",
                       options_.resume_file,
                       name,
                       value);
            continue;
        }
        const Json& told = options.at(name);
        const std::string there = told.is_string() ? told.get<std::string>() : told.dump();
        if (there != value)
            differences += fmt::format("; {}: {} there, {} here", name, there, value);
    }
    if (differences.empty()) return {};
    return make_error(ErrorKind::bad_input,
                      "{} has other histories' results, name another file{}",
                      options_.resume_file,
                      differences);
}

Ok SeedPool::load_resumed() {
    if (options_.resume_file.empty()) return {};
    std::ifstream file(options_.resume_file);
    std::string line;
    bool is_first = true;
    for (; std::getline(file, line); is_first = false) {
        if (is_first) DEDLOC_TRY_VOID(check_header(line));
        resume_torn_ = file.eof();
        const Json parsed = Json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (parsed.is_discarded() || !parsed.contains("seed")) continue;  // a torn line
        if (SeedResult result = from_line(parsed); !result.crashed)
            results_[parsed.at("seed")] = std::move(result);
    }
    resume_.open(options_.resume_file, std::ios::app);
    if (is_first) resume_ << header() << std::endl;
    if (!resume_)
        return make_error(ErrorKind::bad_input, "{} cannot be written", options_.resume_file);
    return {};
}

bool SeedPool::open_pipes(int (&down)[2], int (&up)[2]) {
    if (::pipe2(down, O_CLOEXEC) != 0) return false;
    if (::pipe2(up, O_CLOEXEC) == 0) return true;
    const int error = errno;
    ::close(down[0]);
    ::close(down[1]);
    errno = error;
    return false;
}

bool SeedPool::start(Worker& worker) {
    int down[2];
    int up[2];
    if (!open_pipes(down, up)) {
        not_started_ = std::strerror(errno);
        return false;
    }
    std::fflush(nullptr);
    const pid_t parent = ::getpid();
    worker.process = ::fork();
    if (worker.process == 0) {
        ::close(down[1]);
        ::close(up[0]);
        // The ends towards other workers must not stay open here.
        for (const Worker& other : workers_)
            if (&other != &worker && other.process > 0) {
                ::close(other.to);
                ::close(other.from);
            }
        work(parent, down[0], up[1], job_);
    }
    if (worker.process < 0) not_started_ = std::strerror(errno);
    ::close(down[0]);
    ::close(up[1]);
    worker.to = down[1];
    worker.from = up[0];
    worker.unread.clear();
    if (worker.process > 0) return true;
    ::close(worker.to);
    ::close(worker.from);
    return false;
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

// A disk that is full now may have room again for the next one.
void SeedPool::keep(const std::string& line) {
    if (!resume_.is_open()) return;
    errno = 0;
    resume_ << (resume_torn_ ? "\n" : "") << line << std::endl;
    resume_torn_ = !resume_;
    if (resume_) return;
    resume_.clear();
    if (std::exchange(lost_told_, true)) return;
    fmt::print(stderr,
               "\ndedloc: {} cannot be written ({}): results are lost; those {}s run again when it "
               "is resumed\n",
               options_.resume_file,
               std::strerror(errno),
               options_.what);
}

void SeedPool::take(const std::string& line) {
    const Json parsed = Json::parse(line);
    const std::uint64_t seed = parsed.at("seed");
    results_[seed] = from_line(parsed);
    keep(line);
    if (!results_[seed].failed()) return;
    ++failures_;
    if (found_) return;
    // A planted bug is found once; more seeds would only say it again.
    found_ = options_.stop_when_found && results_[seed].broke_a_promise();
    std::fprintf(
        stderr, "\n%s %llu:\n", options_.what.c_str(), static_cast<unsigned long long>(seed));
    for (const std::string& violation : results_[seed].violations)
        std::fprintf(stderr, "  %s\n", violation.c_str());
    std::fprintf(stderr, "  again: %s\n", options_.again(seed).c_str());
}

void SeedPool::failed(Worker& worker, const std::string& why) {
    const std::uint64_t seed = worker.seed;
    stop(worker);
    SeedResult result;
    result.violations.push_back(why);
    result.crashed = true;
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

std::uint64_t SeedPool::results_wanted() const {
    const auto begin = results_.lower_bound(options_.first);
    const auto end = results_.lower_bound(options_.first + options_.count);
    return static_cast<std::uint64_t>(std::distance(begin, end));
}

Ok SeedPool::run() {
    ::signal(SIGPIPE, SIG_IGN);
    next_ = options_.first;
    workers_.resize(static_cast<std::size_t>(std::clamp(options_.workers, 1, workers_max)));
    for (;;) {
        std::vector<pollfd> wait;
        std::vector<Worker*> busy;
        for (Worker& worker : workers_) {
            if (!worker.busy && !found_) feed(worker);
            if (!worker.busy) continue;
            wait.push_back({worker.from, POLLIN, 0});
            busy.push_back(&worker);
        }
        if (busy.empty() || found_) break;
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
    if (found_ || results_wanted() == options_.count) return {};
    return make_error(ErrorKind::local_fault,
                      "only {} of {} {}s were run: no worker process could be started ({})",
                      results_wanted(),
                      options_.count,
                      options_.what,
                      not_started_);
}

}  // namespace dedloc::lab
