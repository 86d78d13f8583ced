#include "tests/process/resume.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <signal.h>
#include <thread>
#include <utility>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/runtime/real.h"
#include "dedloc/state/checkpoint.h"

#include "tests/common/exit_codes.h"
#include "tests/process/bowl_run.h"
#include "tests/process/peer_process.h"
#include "tests/process/process_folder.h"

namespace dedloc::lab {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t resumed_peers = 3;
constexpr std::uint64_t steps_between = 4;  // that a resumed run must make
constexpr double timeout_s = 120;
constexpr double save_timeout_s = 10;
constexpr auto glance = std::chrono::milliseconds(5);

// Eight megabytes of state: writing them takes long enough to be hit.
const BowlRun resume_bowl = {.name = "resume",
                             .elements = 1000000,
                             .milliseconds = 20,
                             .codec = "fp16",
                             .checkpoint_every = 2};

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

struct Totals {
    int repeats = 0;
    int failures = 0;
    int kills_mid_save = 0;   // a checkpoint was left unfinished
    int kills_mid_round = 0;  // a plan was made and its step not yet
    std::uint64_t steps = 0;
    std::uint64_t steps_lost_max = 0;  // made, and after the newest checkpoint
    std::vector<double> resume_s;      // from the start of the processes to a step of all three
    std::vector<std::string> problems;
};

// A checkpoint that is being written.
bool has_unfinished(const std::string& peer_directory) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(peer_directory + "/checkpoints", error))
        if (entry.is_directory(error) && !fs::exists(entry.path() / "checkpoint.json", error))
            return true;
    return false;
}

struct Newest {
    std::size_t peer = 0;
    state::CheckpointSummary summary;
};

class ResumeRun {
  public:
    ResumeRun(std::string program, std::string folder, std::uint64_t seed)
        : program_(std::move(program)), folder_(std::move(folder)), random_(seed) {}

    // One repeat; false: the collaboration is no good for another one.
    bool repeat(int number, Totals& totals);
    bool start_first();
    void end();
    const std::vector<std::string>& problems() const { return problems_; }

  private:
    void fail(std::string sentence) { problems_.push_back(std::move(sentence)); }
    bool good() const { return problems_.empty(); }
    void poll(bool dead = false);
    void take(const PeerProcess& peer, const events::Event& event);
    template <typename Done>
    bool wait_for(double seconds, const std::string& what, Done done);
    bool start(std::size_t first, std::vector<std::string> words);
    bool all_beyond(std::uint64_t step) const;
    void kill_all(bool while_saving, Totals& totals);
    std::optional<Newest> newest_checkpoint();
    void judge(const Newest& newest, Totals& totals);

    std::string program_;
    std::string folder_;
    Random random_;
    std::vector<std::unique_ptr<PeerProcess>> peers_;
    std::map<std::uint64_t, std::string> hashes_;  // of this life, by step
    std::uint64_t saved_told_ = 0;                 // the newest step that a log calls saved
    std::uint64_t planned_ = 0;                    // newest step that a plan was made for
    std::vector<std::string> problems_;
};

void ResumeRun::take(const PeerProcess& peer, const events::Event& event) {
    using namespace events;
    if (event.is<PlanMade>()) planned_ = std::max(planned_, event.step + 1);
    if (event.is<CheckpointSaved>()) saved_told_ = std::max(saved_told_, event.step);
    if (event.is<CheckpointFailed, NewBranch, StateDiffers>())
        fail(fmt::format("{}: {}", peer.name(), event.text));
}

void ResumeRun::poll(bool dead) {
    for (const auto& peer : peers_) {
        const std::size_t before = peer->steps().size();
        for (const events::Event& event : peer->poll()) take(*peer, event);
        for (const std::uint64_t step : peer->differing_steps(before, hashes_))
            fail(
                fmt::format("{} has another state than the others at step {}", peer->name(), step));
        if (!dead && !peer->process().running())
            fail(fmt::format("{} ended by itself: {}", peer->name(), peer->last_error()));
    }
}

template <typename Done>
bool ResumeRun::wait_for(double seconds, const std::string& what, Done done) {
    const double until = now_s() + seconds;
    for (;;) {
        poll();
        if (!good()) return false;
        if (done()) return true;
        if (now_s() > until) {
            fail(fmt::format("{} within {:.0f} s", what, seconds));
            return false;
        }
        std::this_thread::sleep_for(glance);
    }
}

// Every process must have gone this far with all the others.
bool ResumeRun::all_beyond(std::uint64_t step) const {
    return std::all_of(peers_.begin(), peers_.end(), [step](const auto& peer) {
        return peer->step() >= step && peer->steps().back().members == resumed_peers;
    });
}

// `words` start the peer `first`; the others join it.
bool ResumeRun::start(std::size_t first, std::vector<std::string> words) {
    hashes_.clear();
    planned_ = 0;
    const std::string old = first < peers_.size() ? peers_[first]->join_string() : "";
    for (std::size_t i = 0; i < resumed_peers; ++i) {
        const std::size_t who = (first + i) % resumed_peers;
        if (peers_.size() < resumed_peers) {
            auto peer =
                PeerProcess::start(program_, words, folder_, fmt::format("peer-{}", who + 1));
            if (!peer) return fail(peer.error().message()), false;
            peers_.push_back(*std::move(peer));
        } else if (const Ok again = peers_[who]->restart(words); !again) {
            return fail(again.error().message()), false;
        }
        if (i > 0) continue;
        // The file may still hold the join string of the life before.
        PeerProcess& host = *peers_[who];
        const double until = now_s() + timeout_s;
        while (host.join_string().empty() || host.join_string() == old) {
            if (!host.process().running() || now_s() > until)
                return fail(fmt::format(
                           "{} printed no join string: {}", host.name(), host.last_error())),
                       false;
            std::this_thread::sleep_for(glance);
        }
        words = {"join", host.join_string()};
    }
    return true;
}

bool ResumeRun::start_first() {
    std::error_code error;
    fs::create_directories(folder_, error);
    const std::string run_file = folder_ + "/run.toml";
    std::ofstream(run_file) << bowl_run_text(resume_bowl);
    return start(0, {"host", run_file}) &&
           wait_for(timeout_s, "the run did not start", [&] { return all_beyond(steps_between); });
}

void ResumeRun::kill_all(bool while_saving, Totals& totals) {
    if (while_saving) {
        const double until = now_s() + save_timeout_s;
        const auto somebody_saves = [&] {
            return std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) {
                return has_unfinished(peer->directory());
            });
        };
        while (!somebody_saves() && now_s() < until)
            std::this_thread::sleep_for(std::chrono::microseconds(200));
    } else {
        std::this_thread::sleep_for(std::chrono::duration<double>(random_.uniform(0, 1.0)));
    }
    std::vector<std::size_t> order = {0, 1, 2};
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
    for (const std::size_t i : order) peers_[i]->process().send(SIGKILL);
    for (const auto& peer : peers_) (void)peer->process().wait_for(timeout_s);
    poll(/*dead=*/true);
    totals.steps += hashes_.size();
    const std::uint64_t last = hashes_.empty() ? 0 : hashes_.rbegin()->first;
    if (planned_ > last) ++totals.kills_mid_round;
    if (std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) {
            return has_unfinished(peer->directory());
        }))
        ++totals.kills_mid_save;
}

// Reads and verifies all finished checkpoints of all peers.
std::optional<Newest> ResumeRun::newest_checkpoint() {
    std::optional<Newest> newest;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        auto disk = runtime::real_disk(peers_[i]->directory());
        if (!disk) return fail(disk.error().message()), std::nullopt;
        const auto finished = state::list_checkpoints(**disk, "checkpoints");
        if (!finished) return fail(finished.error().message()), std::nullopt;
        for (const state::CheckpointSummary& summary : *finished) {
            const auto loaded = state::load_checkpoint(**disk, "checkpoints", summary.name);
            if (!loaded) return fail(loaded.error().message()), std::nullopt;
            if (!newest || summary.step > newest->summary.step) newest = Newest{i, summary};
        }
    }
    if (!newest) fail("nobody has a checkpoint");
    return newest;
}

// Judges what can be told before the run goes on.
void ResumeRun::judge(const Newest& newest, Totals& totals) {
    const std::uint64_t step = newest.summary.step;
    if (saved_told_ > step)
        fail(fmt::format(
            "a checkpoint of step {} was told, the newest is of step {}", saved_told_, step));
    const auto known = hashes_.find(step);
    if (known != hashes_.end() && known->second != newest.summary.root.hex())
        fail(fmt::format("the checkpoint of step {} is not the state of that step", step));
    const std::uint64_t last = hashes_.empty() ? step : hashes_.rbegin()->first;
    totals.steps_lost_max = std::max(totals.steps_lost_max, last - std::min(last, step));
}

bool ResumeRun::repeat(int number, Totals& totals) {
    kill_all(number % 2 == 0, totals);
    const auto newest = good() ? newest_checkpoint() : std::nullopt;
    if (newest) judge(*newest, totals);
    if (!good()) return false;
    const double begun = now_s();
    const std::uint64_t from = newest->summary.step;
    const std::string& folder = peers_[newest->peer]->directory();
    if (!start(newest->peer, {"host", "--resume", folder})) return false;
    const bool on = wait_for(
        timeout_s, "not all took part again", [&] { return all_beyond(from + steps_between); });
    if (!on) return false;
    totals.resume_s.push_back(now_s() - begun);
    if (hashes_.begin()->first != from + 1)
        fail(fmt::format("the first step after that of the checkpoint, {}, was {}",
                         from,
                         hashes_.begin()->first));
    saved_told_ = std::max(saved_told_, from);
    return good();
}

void ResumeRun::end() {
    for (const auto& peer : peers_) peer->process().send(SIGKILL);
    for (const auto& peer : peers_) (void)peer->process().wait_for(timeout_s);
}

Totals run_repeats(const ResumeCommand& command, const std::string& folder) {
    Totals totals;
    const std::string program = command.program.empty() ? dedloc_program() : command.program;
    std::FILE* out = command.json ? stderr : stdout;
    std::uint64_t life = 0;
    std::unique_ptr<ResumeRun> run;
    while (totals.repeats < command.repeat) {
        if (!run) {
            ++life;
            run = std::make_unique<ResumeRun>(
                program, fmt::format("{}/run-{}", folder, life), command.seed * 1000 + life);
            if (!run->start_first()) {
                for (const std::string& problem : run->problems())
                    totals.problems.push_back(problem);
                ++totals.failures;
                break;  // the next would not start, either
            }
        }
        const bool good = run->repeat(totals.repeats, totals);
        ++totals.repeats;
        fmt::print(out,
                   "repeat {}: {}\n",
                   totals.repeats,
                   good ? fmt::format("all three go on after {:.1f} s", totals.resume_s.back())
                        : run->problems().front());
        std::fflush(out);
        if (good) continue;
        ++totals.failures;
        for (const std::string& problem : run->problems()) totals.problems.push_back(problem);
        run->end();
        run.reset();
    }
    if (run) run->end();
    return totals;
}

double largest(const std::vector<double>& values) {
    return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

}  // namespace

int run_resume(const ResumeCommand& command) {
    const auto folder = process_folder(command.directory, "resume");
    if (!folder) {
        fmt::print(stderr, "dedloc: {}\n", folder.error().message());
        return exit_disk;
    }
    const double begun = now_s();
    const Totals totals = run_repeats(command, *folder);
    const bool held = totals.failures == 0 && totals.repeats == command.repeat;
    for (const std::string& problem : totals.problems) fmt::print(stderr, "dedloc: {}\n", problem);
    fmt::print(command.json ? stderr : stdout,
               "{} of {} times everybody was killed and the run went on from its newest "
               "checkpoint ({} kills in mid-save, {} in mid-round; at most {} steps to repeat)\n",
               totals.repeats - totals.failures,
               totals.repeats,
               totals.kills_mid_save,
               totals.kills_mid_round,
               totals.steps_lost_max);
    if (command.json) {
        const nlohmann::ordered_json json{{"ok", held},
                                          {"repeats", totals.repeats},
                                          {"failures", totals.failures},
                                          {"kills_mid_save", totals.kills_mid_save},
                                          {"kills_mid_round", totals.kills_mid_round},
                                          {"steps", totals.steps},
                                          {"steps_lost_max", totals.steps_lost_max},
                                          {"resume_s_max", largest(totals.resume_s)},
                                          {"problems", totals.problems},
                                          {"seconds", now_s() - begun}};
        fmt::print("{}\n", monitor::json_line(json));
    }
    end_process_folder(*folder, /*keep=*/!held || !command.directory.empty());
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
