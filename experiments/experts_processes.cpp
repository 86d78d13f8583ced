#include "experiments/experts_processes.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <signal.h>
#include <thread>
#include <vector>

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/collab/node.h"
#include "dedloc/experts/ffn_expert.h"
#include "dedloc/experts/grid_view.h"
#include "dedloc/measure/need.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/security/identity_file.h"

#include "tests/common/exit_codes.h"
#include "tests/process/peer_process.h"
#include "tests/process/process_folder.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t servers_count = 4;
constexpr std::size_t trunk_width = 192;
constexpr std::size_t expert_hidden = 2304;
// --memory of a server: six experts, computing, copies. Three servers hold the sixteen, two do not.
constexpr int lent_mib = 258;
constexpr double served_timeout_s = 60;
constexpr std::uint64_t measured_steps = 8;
constexpr double rescue_s_max = 30;
constexpr double settled_s = 25;  // two turns of snapshots, so that keepers have everything
constexpr double run_s_max = 290;
constexpr double accuracy_min = 0.85;
// A pass: the search, and the calls of a batch (experts::MixtureOptions).
constexpr double pass_s_max = 10;
constexpr Duration onlooker_timeout = std::chrono::seconds(30);

const experts::ExpertGrid lab_grid{.name = "ffn", .sizes = {4, 4}};

// The run names no accuracy to stop at: a quick machine would reach it before the faults are over.
std::string run_text() {
    return fmt::format(R"(name = "experts"
[task]
kind = "moe_classifier"
model = "moe_mlp"
data = "fashion-mnist"
[moe_classifier]
width = {}
[experts]
grid = "4x4"
hidden = {}
best = 2
[batch]
target = 256
micro = 256
[optimizer]
kind = "adamw"
[schedule]
peak = 0.001
[stop]
steps = 5000
[evaluate]
every = 40
)",
                       trunk_width,
                       expert_hidden);
}

double clock_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

nlohmann::json last_event_of(const std::string& folder, std::string_view kind) {
    std::ifstream file(folder + "/events.jsonl");
    nlohmann::json last;
    for (std::string line; std::getline(file, line);) {
        nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
        if (event.is_object() && event.value("kind", "") == kind) last = std::move(event);
    }
    return last;
}

// Looks at the grid as an observer of the run does: nobody else is answered.
class Onlooker {
  public:
    Onlooker(const std::string& folder, const std::string& join_text) {
        node_ = measure::need(collab::Node::open(
            {.directory = folder, .listen = {}, .announce = {}, .workers_count = 1}));
        node_->join_table();
        auto& service = node_->add<collab::CollaborationService>(*node_);
        const auto invitation =
            measure::need(collab::fetch_invitation(*node_, join_text, onlooker_timeout));
        collab::CollaborationOptions options;
        options.run = invitation.run;
        invitation.hand_over(options);
        options.role = membership::Role::observer;
        options.name = "onlooker";
        if (const auto begun = service.begin(std::move(options), nullptr); !begun)
            measure::fail(begun.error());
        directory_ = node_->run_on_network_thread([this] {
            return std::make_unique<experts::Directory>(
                *node_->dht(), node_->host().executor(), node_->clock());
        });
    }
    ~Onlooker() {
        node_->run_on_network_thread([this] { directory_.reset(); });
    }

    // Experts that answer, at servers other than those.
    std::size_t served(const std::set<PeerId>& without = {}) {
        const experts::GridSeen seen =
            measure::need(node_->call("look", look(*node_, *directory_)));
        std::size_t count = 0;
        for (const experts::ExpertSeen& expert : seen.experts)
            if (expert.answers && !without.contains(*expert.server)) ++count;
        return count;
    }
    std::optional<PeerId> busiest(const std::set<PeerId>& without) {
        const experts::GridSeen seen =
            measure::need(node_->call("look", look(*node_, *directory_)));
        std::map<PeerId, int> counts;
        for (const experts::ExpertSeen& expert : seen.experts)
            if (expert.answers && !without.contains(*expert.server)) ++counts[*expert.server];
        std::optional<PeerId> most;
        for (const auto& [server, count] : counts)
            if (!most || count > counts[*most]) most = server;
        return most;
    }

  private:
    static Task<Result<experts::GridSeen>> look(collab::Node& node, experts::Directory& directory) {
        const TimePoint deadline = node.clock().now() + std::chrono::seconds(8);
        co_return co_await experts::survey_grid(
            node.host(), *node.dht(), directory, lab_grid, deadline);
    }

    std::unique_ptr<collab::Node> node_;
    std::unique_ptr<experts::Directory> directory_;
};

nlohmann::json last_object_of(const std::string& path) {
    std::ifstream file(path);
    nlohmann::json last;
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("{")) last = nlohmann::json::parse(line, nullptr, false);
    return last;
}

class ExpertsRun {
  public:
    explicit ExpertsRun(std::string folder) : folder_(std::move(folder)), begun_(clock_s()) {}

    bool run(nlohmann::ordered_json& line);

  private:
    void say(const std::string& text) const {
        fmt::print("{:6.1f} s  {}\n", clock_s() - begun_, text);
        std::fflush(stdout);
    }
    void add_server(std::uint64_t limit_bytes);
    struct Measured {
        std::uint64_t program_bytes = 0;  // of RLIMIT_DATA, before anything is served
        std::uint64_t experts_max = 0;
        std::uint64_t work_bytes = 0;
    };
    Measured ask_a_server();
    void look_after_servers();
    bool wait_until(double seconds, const std::function<bool()>& done);
    double rescue(const std::set<PeerId>& lost);
    void wait_for_trainer();
    bool has_learnt(nlohmann::ordered_json& line) const;
    PeerId id_of(const PeerProcess& server) const;
    PeerProcess& server_of(const PeerId& id);

    std::string folder_;
    double begun_;
    std::string join_;
    std::unique_ptr<PeerProcess> trainer_;
    std::vector<std::unique_ptr<PeerProcess>> servers_;
    std::set<std::string> killed_;  // names
    std::unique_ptr<Onlooker> onlooker_;
};

bool ExpertsRun::wait_until(double seconds, const std::function<bool()>& done) {
    const double end = clock_s() + seconds;
    while (!done()) {
        if (clock_s() >= end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    return true;
}

void ExpertsRun::add_server(std::uint64_t limit_bytes) {
    PeerPlace place;
    place.data_bytes_max = limit_bytes;
    servers_.push_back(
        measure::need(PeerProcess::start(dedloc_program(),
                                         {"serve", join_, "--memory", std::to_string(lent_mib)},
                                         folder_,
                                         fmt::format("server-{}", servers_.size()),
                                         place)));
}

// Asks a server without a limit what it takes before it serves, and how much it will serve.
ExpertsRun::Measured ExpertsRun::ask_a_server() {
    auto server =
        measure::need(PeerProcess::start(dedloc_program(),
                                         {"serve", join_, "--memory", std::to_string(lent_mib)},
                                         folder_,
                                         "measured"));
    nlohmann::json said;
    const bool computed = wait_until(served_timeout_s, [&] {
        said = last_event_of(server->directory(), "serving");
        (void)trainer_->poll();
        return said.is_object() && trainer_->step() >= measured_steps;
    });
    if (!computed)
        measure::fail(make_error(
            ErrorKind::timeout, "no step by one server alone: {}", server->last_error()));
    server->process().kill_group();
    const nlohmann::json& fields = said.at("fields");
    return {.program_bytes = fields.at("program_bytes"),
            .experts_max = fields.at("experts_max"),
            .work_bytes = fields.at("work_bytes")};
}

// Reports servers that have ended, and what they said last: a server that dies is told, not waited
// for.
void ExpertsRun::look_after_servers() {
    for (const auto& server : servers_)
        if (!killed_.contains(server->name()) && !server->process().running())
            measure::fail(make_error(
                ErrorKind::peer_gone, "{} has ended: {}", server->name(), server->last_error()));
}

// Seconds until all experts answer at others than `lost`.
double ExpertsRun::rescue(const std::set<PeerId>& lost) {
    const double begun = clock_s();
    const bool all = wait_until(served_timeout_s, [&] {
        look_after_servers();
        return onlooker_->served(lost) == lab_grid.experts_count();
    });
    return all ? clock_s() - begun : 1e9;
}

// From a copy of its key: the file itself is the process's own while it runs.
PeerId ExpertsRun::id_of(const PeerProcess& server) const {
    namespace fs = std::filesystem;
    const std::string copy = server.directory() + "-key";
    const std::string key = "/identity.key";
    fs::create_directories(copy);
    fs::copy_file(server.directory() + key, copy + key, fs::copy_options::overwrite_existing);
    return measure::need(security::load_or_create_identity(copy)).identity().id();
}

PeerProcess& ExpertsRun::server_of(const PeerId& id) {
    for (const auto& server : servers_)
        if (id_of(*server) == id) return *server;
    measure::fail(make_error(ErrorKind::not_found, "{} is none of the servers", id.text()));
}

bool ExpertsRun::run(nlohmann::ordered_json& line) {
    const std::string run_file = folder_ + "/run.toml";
    std::ofstream(run_file) << run_text();
    trainer_ =
        measure::need(PeerProcess::start(dedloc_program(), {"host", run_file}, folder_, "trainer"));
    if (!wait_until(60, [&] { return !(join_ = trainer_->join_string()).empty(); })) return false;
    const Measured measured = ask_a_server();
    const std::uint64_t limit =
        measured.program_bytes + (static_cast<std::uint64_t>(lent_mib) << 20);
    const std::uint64_t of_one =
        3 * sizeof(float) * experts::FfnExpert::parameters_count(trunk_width, expert_hidden);
    const std::uint64_t model = lab_grid.experts_count() * of_one;
    const std::uint64_t room = measured.experts_max * of_one;
    const double ratio = static_cast<double>(model) / static_cast<double>(room);
    say(fmt::format(
        "experts of {} MiB in all; a server lends {} MiB, {} of them for computing, and "
        "has room for {} MiB of experts, under a limit of {} MiB ({} before it serves)",
        model >> 20,
        lent_mib,
        measured.work_bytes >> 20,
        room >> 20,
        limit >> 20,
        measured.program_bytes >> 20));
    for (std::size_t i = 0; i < servers_count; ++i) add_server(limit);
    onlooker_ = std::make_unique<Onlooker>(folder_ + "/onlooker", join_);
    const double served_s = rescue({});
    say(fmt::format("all experts are served after {:.1f} s", served_s));
    std::this_thread::sleep_for(std::chrono::duration<double>(settled_s));

    const auto killed = onlooker_->busiest({});
    if (!killed) return false;
    killed_.insert(server_of(*killed).name());
    server_of(*killed).process().send(SIGKILL);
    const double killed_s = rescue({*killed});
    say(fmt::format("one was killed; its experts answer again after {:.1f} s", killed_s));
    add_server(limit);  // in its place
    std::this_thread::sleep_for(std::chrono::duration<double>(settled_s));

    const auto stopped = onlooker_->busiest({*killed});
    if (!stopped) return false;
    server_of(*stopped).process().send(SIGSTOP);
    const double stopped_s = rescue({*killed, *stopped});
    say(fmt::format("one was stopped; its experts answer again after {:.1f} s", stopped_s));
    server_of(*stopped).process().send(SIGCONT);

    wait_for_trainer();
    line["servers"] = servers_count;
    line["model_bytes"] = model;
    line["room_bytes"] = room;
    line["lent_bytes"] = std::uint64_t{lent_mib} << 20;
    line["work_bytes"] = measured.work_bytes;
    line["limit_bytes"] = limit;
    line["program_bytes"] = measured.program_bytes;
    line["served_s"] = served_s;
    line["rescue_killed_s"] = killed_s;
    line["rescue_stopped_s"] = stopped_s;
    line["seconds"] = clock_s() - begun_;
    const bool survived = all_hold("experts",
                                   {at_least("model_over_room", ratio, 2.5),
                                    at_most("rescue_killed_s", killed_s, rescue_s_max),
                                    at_most("rescue_stopped_s", stopped_s, rescue_s_max)});
    return has_learnt(line) && survived;
}

void ExpertsRun::wait_for_trainer() {
    wait_until(run_s_max - (clock_s() - begun_), [&] {
        if (!trainer_->process().running()) return true;
        const nlohmann::json evaluation = last_event_of(trainer_->directory(), "evaluation");
        return evaluation.is_object() &&
               evaluation.at("fields").at("accuracy").get<double>() >= accuracy_min;
    });
    trainer_->process().send(SIGINT);
    trainer_->process().wait_for(20);
}

bool ExpertsRun::has_learnt(nlohmann::ordered_json& line) const {
    const nlohmann::json trained = last_object_of(trainer_->directory() + ".out");
    const double accuracy = trained.value("accuracy", 0.0);
    const double longest = trained.value("expert_pass_longest_s", 1e9);
    line["accuracy"] = accuracy;
    for (const char* name : {"step",
                             "expert_calls",
                             "expert_calls_failed",
                             "expert_rows",
                             "expert_rows_lost",
                             "expert_pass_longest_s"})
        line[name] = trained.value(name, 0.0);
    return all_hold("experts",
                    {at_most("expert_pass_longest_s", longest, pass_s_max),
                     at_least("accuracy", accuracy, accuracy_min)});
}

}  // namespace

int run_experts_processes(const ExpertsProcessesCommand& command) {
    const auto folder = process_folder(command.folder, "experts");
    if (!folder) return exit_after(folder.error());
    nlohmann::ordered_json line;
    bool good = false;
    std::string problem;
    try {
        ExpertsRun run(*folder);
        good = run.run(line);
    } catch (const std::exception& failure) {
        problem = failure.what();
        fmt::print(stderr, "dedloc-lab experts: {}\n", problem);
    }
    end_process_folder(*folder, command.keep || !good);
    line["ok"] = good;
    if (!problem.empty()) line["error"] = problem;
    if (command.json) fmt::print("{}\n", monitor::json_line(line));
    return good ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
