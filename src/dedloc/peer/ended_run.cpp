#include "dedloc/peer/ended_run.h"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <vector>

#include "dedloc/monitor/event_log.h"
#include "dedloc/peer/called_as.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/runtime/real.h"
#include "dedloc/state/checkpoint.h"

namespace dedloc::peer {
namespace {

constexpr std::streamoff log_end_bytes = 256 << 10;  // a run's last events are in it

std::string minute_text(WallSeconds time) {
    const auto seconds = static_cast<std::time_t>(time);
    std::tm parts{};
    ::localtime_r(&seconds, &parts);
    char text[32] = {};
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
    return text;
}

// The path that has `host --resume` go on with this run: the folder, or the run's newest checkpoint
// where another run's was saved later. Empty: there is no checkpoint of this run.
std::string saved_state_of(const Digest& run, const std::string& directory) {
    if (directory.empty()) return {};
    const auto disk = runtime::real_disk(directory);
    if (!disk) return {};
    const auto saved = state::list_checkpoints(**disk, std::string(checkpoints_folder));
    if (!saved) return {};
    const auto newest = std::ranges::find(*saved, run, &state::CheckpointSummary::run);
    if (newest == saved->end()) return {};
    if (newest == saved->begin()) return directory;
    return fmt::format("{}/{}/{}", directory, checkpoints_folder, newest->name);
}

}  // namespace

std::optional<EndedRun> end_seen_in(const std::string& folder) {
    std::ifstream file(folder + "/" + std::string(events_file), std::ios::binary);
    if (!file) return std::nullopt;
    file.seekg(0, std::ios::end);
    const std::streamoff size = file.tellg();
    file.seekg(std::max<std::streamoff>(size - log_end_bytes, 0));
    std::optional<EndedRun> seen;
    for (std::string line; std::getline(file, line);) {
        const auto event = monitor::event_from_json_line(line);
        if (!event) continue;  // the first one may be half a line
        if (event->is<events::RunOver>())
            seen = EndedRun{.time = event->time, .step = event->step, .folder = folder};
        if (event->is<events::RunStarted, events::Joined>()) seen.reset();
    }
    return seen;
}

std::optional<EndedRun> end_seen_here(const Digest& run, const std::string& directory) {
    std::vector<std::string> folders;
    if (!directory.empty()) folders.push_back(directory);
    if (const auto root = state_root())
        for (int number = 0; number < peers_per_machine_max; ++number)
            folders.push_back(numbered_directory(*root, run, number));
    std::optional<EndedRun> newest;
    for (const std::string& folder : folders) {
        auto seen = end_seen_in(folder);
        if (seen && (!newest || seen->time > newest->time)) newest = std::move(seen);
    }
    return newest;
}

std::string why_nobody_answers(const run::JoinString& join,
                               const std::string& directory,
                               const std::string& why) {
    if (const auto ended = end_seen_here(join.run, directory))
        return fmt::format(
            "the run has ended, at step {}, on {}: the peer of {} saw it. `{} eval {}` "
            "measures what it learned",
            ended->step,
            minute_text(ended->time),
            ended->folder,
            called_as(),
            ended->folder);
    const bool is_whole = why.ends_with('.');
    const bool has_lines = why.find('\n') != std::string::npos;
    const std::string saved = saved_state_of(join.run, directory);
    return fmt::format(
        "{}{}{}Its peers are off, or cannot be reached from here, or the run has ended{}: ask who "
        "sent the string, who may have a newer one{}",
        why,
        is_whole ? "" : ".",
        has_lines ? "\n" : " ",
        join.anchor
            ? fmt::format(" (it stood at step {} when the string was written)", join.anchor->step)
            : std::string(),
        saved.empty()
            ? std::string()
            : fmt::format(". If all are gone, `{} host --resume {}` goes on from the state here",
                          called_as(),
                          saved));
}

}  // namespace dedloc::peer
