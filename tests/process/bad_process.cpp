#include "tests/process/bad_process.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "dedloc/audit/audit.h"
#include "dedloc/monitor/json_line.h"

#include "tests/common/exit_codes.h"
#include "tests/process/bowl_run.h"
#include "tests/process/peer_process.h"
#include "tests/process/process_folder.h"

namespace dedloc::lab {
namespace {

constexpr double liar_begin_patience_s = 120;
constexpr double ban_patience_s = 120;
constexpr double liar_refusal_patience_s = 60;
constexpr std::uint64_t steps_afterwards = 5;
constexpr auto bad_glance = std::chrono::milliseconds(20);
const BowlRun bad_bowl = {.name = "bad", .elements = 65536, .milliseconds = 20};
constexpr const char* robust_words = R"(
[robust]
tau = 1000.0
check = 0.5
probation = 1
)";

class BadProcessRun {
  public:
    BadProcessRun(const FaultsCommand& command, std::string program, std::string folder)
        : command_(command), program_(std::move(program)), folder_(std::move(folder)) {}

    void run() {
        start() && wait_for_ban() && wait_for_steps() && try_to_return();
        for (const auto& peer : honest_) peer->process().send(SIGTERM);
        wait_for(liar_refusal_patience_s, "the others do not end", [this] {
            return std::ranges::none_of(honest_,
                                        [](const auto& peer) { return peer->process().running(); });
        });
        look_at_disk();
    }

    const std::vector<std::string>& problems() const { return problems_; }
    nlohmann::ordered_json json() const {
        return {{"ok", problems_.empty()},
                {"failures", problems_.size()},
                {"problems", problems_},
                {"banned", banned_.size()},
                {"ban_step", ban_step_},
                {"refusal", refusal_},
                {"orders", orders_},
                {"orders_proved", orders_proved_},
                {"steps", steps()}};
    }

  private:
    bool fail(std::string sentence) {
        problems_.push_back(std::move(sentence));
        return false;
    }
    std::uint64_t steps() const {
        std::uint64_t newest = 0;
        for (const auto& peer : honest_) newest = std::max(newest, peer->step());
        return newest;
    }
    void look() {
        for (std::size_t i = 0; i < honest_.size(); ++i) {
            PeerProcess& peer = *honest_[i];
            const std::size_t before = peer.steps().size();
            for (const events::Event& event : peer.look()) hear(event);
            for (const std::uint64_t step : peer.differing_steps(before, hashes_))
                fail(fmt::format("{} has another state at step {}", peer.name(), step));
        }
        if (liar_) (void)liar_->look();
    }
    void hear(const events::Event& event) {
        const auto* order = event.as<events::OrderGiven>();
        if (order == nullptr || order->order != "banned") return;
        if (banned_.insert(event.peer).second) ban_step_ = event.step;
    }
    template <typename Done>
    bool wait_for(double seconds, const std::string& else_what, Done done) {
        const auto until =
            std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
        while (std::chrono::steady_clock::now() < until) {
            look();
            if (done()) return true;
            std::this_thread::sleep_for(bad_glance);
        }
        return fail(fmt::format("{} within {:.0f} s", else_what, seconds));
    }
    bool start() {
        std::error_code error;
        std::filesystem::create_directories(folder_, error);
        const std::string path = folder_ + "/run.toml";
        std::ofstream(path) << bowl_run_text(bad_bowl) << robust_words;
        if (!start_one({"host", path}, "peer-1")) return false;
        const bool hosted = wait_for(liar_begin_patience_s, "the host gave no join string", [this] {
            return !honest_.front()->join_string().empty();
        });
        if (!hosted) return false;
        const std::string join = honest_.front()->join_string();
        for (int i = 2; i < command_.peers; ++i)
            if (!start_one({"join", join}, fmt::format("peer-{}", i))) return false;
        const bool together = wait_for(liar_begin_patience_s, "not all took part", [this] {
            return std::ranges::all_of(honest_, [this](const auto& peer) {
                return !peer->steps().empty() && peer->steps().back().members == honest_.size();
            });
        });
        if (!together) return false;
        auto liar = PeerProcess::start(program_, {"join", join, "--flip-signs"}, folder_, "liar");
        if (!liar) return fail(liar.error().message());
        liar_ = *std::move(liar);
        return true;
    }
    bool start_one(std::vector<std::string> words, const std::string& name) {
        auto peer = PeerProcess::start(program_, std::move(words), folder_, name);
        if (!peer) return fail(peer.error().message());
        honest_.push_back(*std::move(peer));
        return true;
    }
    bool wait_for_ban() {
        const bool out = wait_for(ban_patience_s, "the liar was not out", [this] {
            return !banned_.empty() && !liar_->process().running();
        });
        if (!out) return false;
        if (liar_->last_error().find("banned since step") == std::string::npos)
            return fail("the liar was not told in words: " + liar_->last_error());
        return true;
    }
    bool wait_for_steps() {
        const std::uint64_t from = steps();
        return wait_for(liar_begin_patience_s, "the others made no more steps", [this, from] {
            return std::ranges::all_of(
                honest_, [&](const auto& peer) { return peer->step() >= from + steps_afterwards; });
        });
    }
    bool try_to_return() {
        const std::string join = honest_.front()->join_string();
        if (const Ok again = liar_->restart({"join", join, "--flip-signs"}); !again)
            return fail(again.error().message());
        const bool refused = wait_for(liar_refusal_patience_s, "the liar was not refused", [this] {
            return !liar_->process().running();
        });
        refusal_ = liar_->last_error();
        if (refused && refusal_.find("banned since step") == std::string::npos)
            return fail("the liar was not refused in words: " + refusal_);
        return refused;
    }
    void look_at_disk() {
        if (banned_.size() > 1) fail(fmt::format("{} peers are banned", banned_.size()));
        std::vector<std::string> folders;
        for (const auto& peer : honest_) folders.push_back(peer->directory());
        const auto report = audit::audit_folders(folders);
        if (!report) {
            fail(report.error().message());
            return;
        }
        for (const std::string& problem : report->problems) fail("audit: " + problem);
        orders_ = report->orders;
        orders_proved_ = report->orders_proved;
        if (orders_ == 0 || orders_ != orders_proved_)
            fail(fmt::format("{} of {} orders are proved", orders_proved_, orders_));
    }

    const FaultsCommand& command_;
    std::string program_;
    std::string folder_;
    std::vector<std::unique_ptr<PeerProcess>> honest_;
    std::unique_ptr<PeerProcess> liar_;
    std::map<std::uint64_t, std::string> hashes_;
    std::set<PeerId> banned_;
    std::uint64_t ban_step_ = 0;
    std::string refusal_;
    std::uint64_t orders_ = 0;
    std::uint64_t orders_proved_ = 0;
    std::vector<std::string> problems_;
};

}  // namespace

int run_bad_process(const FaultsCommand& command) {
    const auto folder = process_folder(command.directory, "bad");
    if (!folder) {
        fmt::print(stderr, "dedloc: {}\n", folder.error().message());
        return exit_disk;
    }
    BadProcessRun run(
        command, command.program.empty() ? dedloc_program() : command.program, *folder);
    run.run();
    for (const std::string& problem : run.problems()) fmt::print(stderr, "dedloc: {}\n", problem);
    if (command.json) fmt::print("{}\n", monitor::json_line(run.json()));
    const bool held = run.problems().empty();
    end_process_folder(*folder, /*keep=*/!held || !command.directory.empty());
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
