// A small collaboration inside this process, for experiments that train a real model: peers with
// their own identities, folders, sockets and trainer threads, that come and go by global steps; and
// the same training alone, to compare.
//
// Thread: the caller's; it looks every few milliseconds. Errors: those of a peer that ends by
// itself; local_fault for the disk.

#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/tasks/training_task.h"
#include "dedloc/train/trainer.h"

#include "tests/common/step_book.h"

namespace dedloc::lab {

// The state from which a run begins, as its host makes it.
Result<std::shared_ptr<const state::Snapshot>> mini_first_state(const run::RunFile& run,
                                                                train::SampledModel& learner);

// One peer; its folder outlives it. Its number decides its PeerId, and so its samples.
class MiniPeer final : public events::EventSink {
  public:
    MiniPeer(const tasks::TrainingTask& task, std::size_t number, const std::string& folder);
    ~MiniPeer() override { kill(); }

    // Without a join string: hosts.
    Ok start(const run::RunFile& run, const std::string& join);
    // As if the process died: not a word to anybody.
    void kill();
    void leave();

    bool alive() const { return node_ != nullptr; }
    std::size_t number() const { return number_; }
    std::shared_ptr<const state::Snapshot> state() const;
    std::string join_string() const;
    std::map<std::uint64_t, StepSeen> steps() const;  // what it said of each
    const std::string& directory() const { return directory_; }
    bool failed() const { return failed_; }

    void record(const events::Event& event) override;

  private:
    Ok write_identity() const;

    const tasks::TrainingTask& task_;
    std::size_t number_;
    std::string directory_;
    std::unique_ptr<collab::Node> node_;
    collab::CollaborationService* service_ = nullptr;  // the node's
    std::unique_ptr<train::Trainer> trainer_;
    std::atomic<bool> failed_ = false;
    mutable std::mutex mutex_;
    std::map<std::uint64_t, StepSeen> seen_;  // by step; under mutex_
};

// The faults of the run, by global steps.
enum class MiniDeed { kill, leave, join };
struct MiniAct {
    std::uint64_t step = 0;
    MiniDeed deed{};
    std::size_t peer = 0;  // from 1
    std::string text{};    // "peer 3 is killed"
};

struct MiniPlan {
    std::size_t first_peers = 4;
    std::size_t peers = 5;
    std::vector<MiniAct> acts{};
    std::uint64_t observe_every = 10;  // global steps
};

class MiniCollaboration {
  public:
    // Answers true when the run may end.
    using Observer = std::function<Result<bool>(const state::Snapshot& newest)>;

    MiniCollaboration(run::RunFile run,
                      const tasks::TrainingTask& task,
                      const std::string& folder,
                      MiniPlan plan);

    // The observer is shown the newest state at the start and at every observe_every-th step. All
    // peers are gone when this returns.
    Ok train(const Observer& observe);

    const std::vector<std::string>& done() const { return done_; }  // acts
    // State hashes of the living peers after the last step that all of them applied.
    const std::vector<std::string>& final_hashes() const { return final_hashes_; }
    std::uint64_t compared() const { return compared_; }    // steps that two peers or more applied
    std::uint64_t different() const { return different_; }  // of these, with other hashes
    std::uint64_t steps() const { return steps_; }
    // State hashes after each step, as the first peer said it, and mean loss of what was handed in.
    const std::map<std::uint64_t, std::string>& hashes() const { return hashes_; }
    const std::map<std::uint64_t, double>& losses() const { return losses_; }
    // Where peer `number` has its files.
    const std::string& directory(std::size_t number) const {
        return peers_[number - 1]->directory();
    }
    bool identical() const;

  private:
    Ok begin();
    Ok act(const MiniAct& act);
    Ok look_for_failures() const;
    MiniPeer& newest() const;
    std::optional<std::uint64_t> common_step() const;
    void compare();

    run::RunFile run_;
    MiniPlan plan_;
    std::vector<std::unique_ptr<MiniPeer>> peers_;
    std::size_t next_act_ = 0;
    std::vector<std::string> done_;
    std::vector<std::string> final_hashes_;
    std::uint64_t compared_ = 0;
    std::uint64_t different_ = 0;
    std::uint64_t steps_ = 0;
    std::map<std::uint64_t, std::string> hashes_;
    std::map<std::uint64_t, double> losses_;
};

// Trains one learner with one optimizer on batches of exactly the target. `observe` is called as by
// MiniCollaboration::train(), every `observe_every` steps.
using LookAlone =
    std::function<Result<bool>(std::uint64_t step, std::span<const float> parameters)>;
Ok train_alone(const run::RunFile& run,
               const tasks::TrainingTask& task,
               std::uint64_t observe_every,
               const LookAlone& observe);

}  // namespace dedloc::lab
