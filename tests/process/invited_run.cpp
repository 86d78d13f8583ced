#include "tests/process/invited_run.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <thread>

#include "tests/process/bowl_run.h"

namespace dedloc::lab {
namespace {

namespace fs = std::filesystem;

constexpr auto admission_glance = std::chrono::milliseconds(20);

const BowlRun admission_bowl = {.name = "invited", .elements = 20'000, .milliseconds = 40};

}  // namespace

double steady_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

std::string content_of_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
}

void InvitedRun::poll() {
    for (const auto& peer : peers_)
        for (const events::Event& event : peer->poll()) on_event(*peer, event);
}

bool InvitedRun::wait_for(double seconds,
                          const std::string& what,
                          const std::function<bool()>& done) {
    const double until = steady_s() + seconds;
    for (;;) {
        poll();
        if (done()) return true;
        const bool ended = !organiser().process().running();
        if (ended || steady_s() > until) {
            fail(fmt::format("{} {}; the organiser says: {}",
                             what,
                             ended ? "before the organiser's process ended"
                                   : fmt::format("within {:.0f} s", seconds),
                             organiser().last_error()));
            return false;
        }
        std::this_thread::sleep_for(admission_glance);
    }
}

bool InvitedRun::wait_for_steps(const std::string& what, std::uint64_t steps) {
    poll();
    std::uint64_t from = 0;
    for (const auto& peer : peers_) from = std::max(from, peer->step());
    return wait_for(admission_begin_timeout_s, what, [this, from, steps] {
        return std::ranges::all_of(peers_,
                                   [&](const auto& peer) { return peer->step() >= from + steps; });
    });
}

std::optional<std::string> InvitedRun::command(std::vector<std::string> words,
                                               const std::string& directory) {
    const std::string out = folder_ + "/command";
    words.insert(words.begin(), program_);
    words.insert(words.end(), {"--dir", directory.empty() ? organiser().directory() : directory});
    const runtime::ChildOptions options{
        .command = words, .output_file = out + ".out", .error_file = out + ".err", .niceness = 0};
    auto child = runtime::ChildProcess::start(options);
    if (!child || !child->wait_for(admission_refusal_timeout_s) || child->end()->exit_code != 0) {
        fail(fmt::format("dedloc {} failed: {}", words[1], content_of_file(out + ".err")));
        return std::nullopt;
    }
    return content_of_file(out + ".out");
}

bool InvitedRun::start_organiser(PeerPlace place) {
    std::error_code error;
    fs::create_directories(folder_, error);
    const std::string run_file = folder_ + "/run.toml";
    std::ofstream(run_file) << bowl_run_text(admission_bowl);
    auto host = PeerProcess::start(
        program_, {"host", run_file, "--admit", "list"}, folder_, "organiser", std::move(place));
    if (!host) return fail(host.error().message()), false;
    peers_.push_back(*std::move(host));
    return wait_for(admission_begin_timeout_s, "the organiser printed no join string", [this] {
        return !organiser().join_string().empty();
    });
}

PeerProcess* InvitedRun::start_person(const std::string& name,
                                      std::vector<std::string> options,
                                      const std::string& directory,
                                      PeerPlace place) {
    std::vector<std::string> words{"invite", name};
    words.insert(words.end(), options.begin(), options.end());
    const auto string = command(std::move(words), directory);
    if (!string) return nullptr;
    strings_[name] = *string;
    auto peer = PeerProcess::start(program_, {"join", *string}, folder_, name, std::move(place));
    if (!peer) return fail(peer.error().message()), nullptr;
    peers_.push_back(*std::move(peer));
    return peers_.back().get();
}

void InvitedRun::forget(const PeerProcess& peer) {
    std::erase_if(peers_, [&peer](const auto& one) { return one.get() == &peer; });
}

}  // namespace dedloc::lab
