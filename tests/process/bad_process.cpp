#include "tests/process/bad_process.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "dedloc/audit/audit.h"
#include "dedloc/measure/median.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/security/identity_file.h"

#include "tests/common/exit_codes.h"
#include "tests/process/bowl_run.h"
#include "tests/process/peer_process.h"
#include "tests/process/process_folder.h"

namespace dedloc::lab {
namespace {

constexpr double liar_begin_timeout_s = 120;
constexpr double ban_timeout_s = 180;
constexpr double liar_refusal_timeout_s = 60;
constexpr std::uint64_t steps_afterwards = 5;
constexpr auto bad_glance = std::chrono::milliseconds(20);
const BowlRun bad_bowl = {.name = "bad", .elements = 65536, .milliseconds = 20};
constexpr const char* quick_checks = R"(
[robust]
check = 0.5
probation = 1
trust_after = 4
)";
constexpr const char* local_updates = R"(
[local]
batch = 2
[local.optimizer]
kind = "adamw"
[local.schedule]
peak = 0.01
)";
constexpr const char* usual_checks = R"(
[robust]
)";
// Colluders are as trusted by then as keys of that age are.
constexpr std::uint64_t colluders_lie_from = 60;
constexpr std::size_t losses_usual = 8;
constexpr double losses_jump_max = 2;
// The bowl tells the loss without that of a sample's own noise (uniform, one wide), which no step
// takes away. Near the goal the rest is next to nothing, and any step a multiple of it.
constexpr double loss_of_noise = 1.0 / 24;

class BadProcessRun {
  public:
    BadProcessRun(const FaultsCommand& command, std::string program, std::string folder)
        : command_(command),
          liars_count_(command.bad == "collude" ? 2 : 1),
          program_(std::move(program)),
          folder_(std::move(folder)) {}

    void run() {
        start() && wait_for_ban() && wait_for_steps() && try_to_return();
        for (const auto& peer : honest_) peer->process().send(SIGTERM);
        wait_for(liar_refusal_timeout_s, "the others do not end", [this] {
            return std::ranges::none_of(honest_,
                                        [](const auto& peer) { return peer->process().running(); });
        });
        check_disk();
    }

    const std::vector<std::string>& problems() const { return problems_; }
    nlohmann::ordered_json json() const {
        return {{"ok", problems_.empty()},
                {"failures", problems_.size()},
                {"problems", problems_},
                {"banned", banned_.size()},
                {"ban_step", ban_step_},
                {"loss_jump", loss_jump_},
                {"loss_jump_without_noise", loss_jump_without_noise_},
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
    void poll() {
        for (std::size_t i = 0; i < honest_.size(); ++i) {
            PeerProcess& peer = *honest_[i];
            const std::size_t before = peer.steps().size();
            for (const events::Event& event : peer.poll()) hear(event);
            for (const std::uint64_t step : peer.differing_steps(before, hashes_))
                fail(fmt::format("{} has another state at step {}", peer.name(), step));
        }
        for (const auto& liar : liars_) (void)liar->poll();
    }
    void hear(const events::Event& event) {
        const auto* order = event.as<events::OrderGiven>();
        if (order == nullptr) return;
        if (!is_liar(event.peer) && reproached_.insert(event.peer).second)
            fail(fmt::format("{}, which is honest, is {}", event.peer.text(), order->order));
        if (order->order == "banned" && banned_.insert(event.peer).second) ban_step_ = event.step;
    }
    bool is_liar(const PeerId& peer) const {
        return std::ranges::find(liar_ids_, peer) != liar_ids_.end();
    }
    // Each peer's loss of a step is compared with the middle one of those before it.
    void check_losses() {
        for (const auto& peer : honest_) {
            std::vector<double> before;
            for (const StepSeen& step : peer->steps()) {
                if (!std::isfinite(step.loss)) continue;
                if (before.size() >= losses_usual) {
                    const double usual =
                        measure::median({before.end() - losses_usual, before.end()});
                    loss_jump_ =
                        std::max(loss_jump_, (step.loss + loss_of_noise) / (usual + loss_of_noise));
                    if (usual > 0)
                        loss_jump_without_noise_ =
                            std::max(loss_jump_without_noise_, step.loss / usual);
                }
                before.push_back(step.loss);
            }
        }
        if (loss_jump_ > losses_jump_max)
            fail(fmt::format("the loss of a step is {:.3g} times what it was before", loss_jump_));
    }
    template <typename Done>
    bool wait_for(double seconds, const std::string& else_what, Done done) {
        const auto until =
            std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
        while (std::chrono::steady_clock::now() < until) {
            poll();
            if (done()) return true;
            std::this_thread::sleep_for(bad_glance);
        }
        return fail(fmt::format("{} within {:.0f} s", else_what, seconds));
    }
    bool start() {
        std::error_code error;
        std::filesystem::create_directories(folder_, error);
        const std::string path = folder_ + "/run.toml";
        std::ofstream(path) << bowl_run_text(bad_bowl)
                            << (liars_count_ > 1 ? usual_checks : quick_checks)
                            << (command_.local ? local_updates : "");
        if (!start_one({"host", path}, "peer-1")) return false;
        const bool hosted = wait_for(liar_begin_timeout_s, "the host gave no join string", [this] {
            return !honest_.front()->join_string().empty();
        });
        if (!hosted) return false;
        const std::string join = honest_.front()->join_string();
        const int honest = command_.peers - static_cast<int>(liars_count_);
        for (int i = 2; i <= honest; ++i)
            if (!start_one({"join", join}, fmt::format("peer-{}", i))) return false;
        const bool together = wait_for(liar_begin_timeout_s, "not all took part", [this] {
            return std::ranges::all_of(honest_, [this](const auto& peer) {
                return !peer->steps().empty() && peer->steps().back().members == honest_.size();
            });
        });
        if (!together) return false;
        return start_liars(join);
    }
    bool start_liars(const std::string& join) {
        for (std::size_t i = 0; i < liars_count_; ++i) {
            const auto key = security::load_or_create_identity(folder_ + "/" + liar_name(i));
            if (!key) return fail(key.error().message());
            liar_ids_.push_back(key->identity().id());
        }
        for (std::size_t i = 0; i < liars_count_; ++i) {
            auto liar = PeerProcess::start(program_, liar_words(join, i), folder_, liar_name(i));
            if (!liar) return fail(liar.error().message());
            liars_.push_back(*std::move(liar));
        }
        return true;
    }
    static std::string liar_name(std::size_t i) { return fmt::format("liar-{}", i + 1); }
    std::vector<std::string> liar_words(const std::string& join, std::size_t i) const {
        std::vector<std::string> words{"join", join, "--flip-signs"};
        if (liars_count_ < 2) return words;
        const std::string from = std::to_string(colluders_lie_from);
        words.insert(words.end(), {"--flip-from", from, "--accomplice", liar_ids_[1 - i].text()});
        return words;
    }
    bool start_one(std::vector<std::string> words, const std::string& name) {
        auto peer = PeerProcess::start(program_, std::move(words), folder_, name);
        if (!peer) return fail(peer.error().message());
        honest_.push_back(*std::move(peer));
        return true;
    }
    bool wait_for_ban() {
        const auto is_out = [](const auto& liar) { return !liar->process().running(); };
        const bool out = wait_for(ban_timeout_s, "not all who lie were out", [&] {
            return banned_.size() >= liars_count_ && std::ranges::all_of(liars_, is_out);
        });
        if (!out) return false;
        for (const auto& liar : liars_)
            if (liar->last_error().find("banned since step") == std::string::npos)
                return fail("a liar was not told in words: " + liar->last_error());
        return true;
    }
    bool wait_for_steps() {
        const std::uint64_t from = steps();
        return wait_for(liar_begin_timeout_s, "the others made no more steps", [this, from] {
            return std::ranges::all_of(
                honest_, [&](const auto& peer) { return peer->step() >= from + steps_afterwards; });
        });
    }
    bool try_to_return() {
        const std::string join = honest_.front()->join_string();
        PeerProcess& liar = *liars_.front();
        if (const Ok again = liar.restart(liar_words(join, 0)); !again)
            return fail(again.error().message());
        const bool refused = wait_for(liar_refusal_timeout_s, "the liar was not refused", [&liar] {
            return !liar.process().running();
        });
        refusal_ = liar.last_error();
        if (refused && refusal_.find("banned since step") == std::string::npos)
            return fail("the liar was not refused in words: " + refusal_);
        return refused;
    }
    void check_disk() {
        check_losses();
        if (banned_.size() > liars_count_) fail(fmt::format("{} peers are banned", banned_.size()));
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
    std::size_t liars_count_;
    std::string program_;
    std::string folder_;
    std::vector<std::unique_ptr<PeerProcess>> honest_;
    std::vector<std::unique_ptr<PeerProcess>> liars_;
    std::vector<PeerId> liar_ids_;
    std::set<PeerId> reproached_;  // of the others
    double loss_jump_ = 0;
    double loss_jump_without_noise_ = 0;
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
