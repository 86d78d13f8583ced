#include "dedloc/peer/checkpoint_hook.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <signal.h>
#include <utility>

namespace dedloc::peer {
namespace {

constexpr std::size_t last_words_bytes_max = 300;

constexpr std::string_view published_file = "published";
constexpr double ask_interval_s = 0.2;

// $1 folder, $2 step, $3 hash; $4 the folder to publish in, or nothing; $5 the command, or nothing;
// $6 the list of copies that this peer made: others' copies stay, whatever becomes of theirs here.
// Beside the list are the run's files (run_files.h), which each copy gets as well.
// Copies are removed before the new one is made as well: there may be no room for it beside them.
// The copy that `latest` names stays until the new one is there. One that cannot be removed stays
// in the list, and is tried again with the next checkpoint.
constexpr const char* hook_script = R"(
set -e
remove_copies() {
    latest=$(readlink -- "$4/latest" || true)
    while IFS= read -r copy; do
        case "$copy" in
            "$4/$latest") ;;
            "$4"/step-*) [ -e "$kept/${copy##*/}/checkpoint.json" ] ||
                         { rm -rf -- "$copy" && continue || true; } ;;
        esac
        printf '%s\n' "$copy"
    done < "$6" > "$6.new"
    mv -- "$6.new" "$6"
}
if [ -n "$4" ]; then
    mkdir -p -- "$4"
    name=$(basename -- "$1")
    kept=$(dirname -- "$1")
    [ -e "$4/$name" ] || printf '%s\n' "$4/$name" >> "$6"
    touch -- "$6"
    while IFS= read -r copy; do
        rm -rf -- "${copy%/*}/.${copy##*/}.new" || true
    done < "$6"
    rm -rf -- "$4/.$name.new"
    remove_copies "$@"
    cp -R -- "$1" "$4/.$name.new"
    files=$(dirname -- "$6")/files
    if [ -d "$files" ]; then cp -R -- "$files" "$4/.$name.new/files"; fi
    rm -rf -- "$4/$name"
    mv -T -- "$4/.$name.new" "$4/$name"
    ln -sfn -- "$name" "$4/latest"
    remove_copies "$@"
fi
if [ -n "$5" ]; then exec /bin/sh -c "$5" dedloc-hook "$1" "$2" "$3"; fi
)";

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// The last line of what it said.
std::string last_words(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string line;
    std::string last;
    while (std::getline(file, line))
        if (!line.empty()) last = line;
    return last.substr(0, last_words_bytes_max);
}

}  // namespace

CheckpointHook::CheckpointHook(HookOptions options, Tell tell)
    : options_(std::move(options)), tell_(std::move(tell)) {
    if (options_.publish_directory.empty()) return;
    std::error_code error;
    auto path = std::filesystem::absolute(options_.publish_directory, error).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // one spelling, with or without a slash
    if (!error) options_.publish_directory = path.string();
}

std::vector<std::string> CheckpointHook::holds() const {
    std::vector<std::string> names;
    for (const auto* work : {&waiting_, &running_})
        if (*work) names.push_back(std::filesystem::path((*work)->folder).filename().string());
    return names;
}

void CheckpointHook::saved(const std::string& folder,
                           std::uint64_t step,
                           const std::string& state_hash) {
    if (!wanted()) return;
    if (waiting_) ++skipped_;
    waiting_ = Work{folder, step, state_hash};
    poll();
}

void CheckpointHook::start(Work work) {
    runtime::ChildOptions child{
        .command = {"/bin/sh",
                    "-c",
                    hook_script,
                    "dedloc-hook",
                    work.folder,
                    fmt::format("{}", work.step),
                    work.state_hash,
                    options_.publish_directory,
                    options_.command,
                    fmt::format("{}/{}", options_.log_directory, published_file)},
        .output_file = options_.log_directory + "/hook.out",
        .error_file = options_.log_directory + "/hook.err",
        .niceness = 5};
    auto process = runtime::ChildProcess::start(child);
    if (!process) return tell_(events::PublishFailed{}, process.error().message());
    process_.emplace(*std::move(process));
    running_ = std::move(work);
    started_ = now_s();
}

void CheckpointHook::ended() {
    const runtime::ChildEnd end = process_->end().value_or(runtime::ChildEnd{});
    const std::uint64_t step = running_->step;
    process_.reset();
    running_.reset();
    const std::uint64_t skipped = std::exchange(skipped_, 0);
    const std::string also =
        skipped == 0 ? "" : fmt::format(" ({} between were skipped: it is slow)", skipped);
    if (end.exit_code == 0 && end.signal == 0)
        return tell_(events::Published{},
                     fmt::format("published the state of step {}{}", step, also));
    tell_(events::PublishFailed{},
          fmt::format("publishing the state of step {} failed ({}{}){}; the checkpoint itself is "
                      "whole: {}",
                      step,
                      end.signal != 0 ? "signal " : "exit code ",
                      end.signal != 0 ? end.signal : end.exit_code,
                      also,
                      last_words(options_.log_directory + "/hook.err")));
}

void CheckpointHook::poll() {
    if (process_ && now_s() - started_ > options_.seconds_max) process_->kill_group();
    if (process_ && !process_->running()) ended();
    if (!process_ && waiting_) start(*std::exchange(waiting_, std::nullopt));
}

void CheckpointHook::give_up() {
    process_.reset();  // which kills
    for (auto* work : {&running_, &waiting_}) {
        if (!*work) continue;
        const Work left = *std::exchange(*work, std::nullopt);
        tell_(events::PublishFailed{},
              fmt::format("the state of step {} was not published: there was no time left; the "
                          "checkpoint itself is whole: {}",
                          left.step,
                          left.folder));
    }
}

void CheckpointHook::finish(double seconds, const std::function<bool()>& gives_up) {
    const double until = now_s() + seconds;
    for (poll(); busy(); poll()) {
        const double left = until - now_s();
        if (left <= 0 || gives_up()) return give_up();
        if (process_) (void)process_->wait_for(std::min(left, ask_interval_s));
    }
}

}  // namespace dedloc::peer
