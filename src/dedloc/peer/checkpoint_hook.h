// CheckpointHook: what the user wants done with every checkpoint: a shell command, and a folder
// that gets a copy. Both run in a process of their own, one at a time, so that a hook that fails,
// hangs or is slow costs the training nothing:
//
//   - while one runs, the newest checkpoint waits; those between are skipped, and counted;
//   - it is killed, with all it started, after hook_seconds_max;
//   - the checkpoint it works on is not removed meanwhile (holds()).
//
// The command is run by /bin/sh; $1 is the checkpoint's folder, $2 its step, $3 its state's hash.
// Its output is in hook.out and hook.err in the peer's folder (of the last one).
// A copy appears in the folder whole or not at all, under the checkpoint's own name; the symbolic
// link `latest` names the newest. Copies of checkpoints that the peer itself keeps no more are
// removed before each (but for the one that `latest` names) and after it: those that its list,
// `published` in its own folder, says it made there.
// Copies of one checkpoint that two peers make have one name: a publish folder is one peer's.
//
// Thread: one, which lives on (runtime/child_process.h). Nothing blocks but finish().

#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/events/events.h"
#include "dedloc/runtime/child_process.h"

namespace dedloc::peer {

inline constexpr double hook_seconds_max = 3600;     // then it is killed
inline constexpr double last_hook_seconds_max = 20;  // at the end of a peer that was interrupted

struct HookOptions {
    std::string command{};  // empty: none
    std::string publish_directory{};
    std::string log_directory;
    double seconds_max = hook_seconds_max;
};

class CheckpointHook {
  public:
    // Tells Published and PublishFailed, with a sentence.
    using Tell = std::function<void(events::Any what, std::string text)>;
    CheckpointHook(HookOptions options, Tell tell);

    bool wanted() const { return !options_.command.empty() || !options_.publish_directory.empty(); }
    // A checkpoint is whole at `folder` (absolute).
    void saved(const std::string& folder, std::uint64_t step, const std::string& state_hash);
    // Looks whether the running one has ended, and starts the one that waits.
    void poll();
    // Whether there is something to wait for.
    bool busy() const { return process_ || waiting_; }
    // Waits for what is left, at most so many seconds, or until `gives_up` says so, which is asked
    // several times a second. What is not done then is killed, and told.
    void finish(double seconds, const std::function<bool()>& gives_up);
    // Names of checkpoints that must stay.
    std::vector<std::string> holds() const;

  private:
    struct Work {
        std::string folder;
        std::uint64_t step = 0;
        std::string state_hash;
    };
    void start(Work work);
    void ended();
    void give_up();

    HookOptions options_;
    Tell tell_;
    std::optional<Work> waiting_;
    std::optional<Work> running_;
    std::optional<runtime::ChildProcess> process_;
    double started_ = 0;
    std::uint64_t skipped_ = 0;
};

}  // namespace dedloc::peer
