// OwnLoop: a training loop that somebody wrote himself as a peer of a run, over spans of memory.
// torch_bridge's CollaborativeOptimizer and Python's Optimizer are thin layers over it.
//
//   DEDLOC_TRY(auto loop, OwnLoop::join(gradients, fingerprint, {.run_file = "run.toml"}));
//   while (!loop->finished()) {
//       … a forward and a backward pass …
//       DEDLOC_TRY(const bool has_new_parameters, loop->step(samples, mean_loss));
//   }
//   DEDLOC_TRY_VOID(loop->leave(10s));
//
// The optimizer, its learning rates and the target batch are in the run file, the same for all.
// step() only adds up gradients until the target batch of the whole collaboration is full; then it
// takes part in the averaging (it blocks for that long) and loads the new parameters. Others may
// make steps, the run's last one too, while this loop is in a forward or backward pass:
// global_step() and state_hash() are ahead of the model then.
//
// Samples: every peer has to draw others, in another order. Nothing here can see to that; seed() is
// for it.
//
// A batch whose mean gradient is not finite, or longer than averaging.norm_max, leaves no trace in
// what is handed in.
//
// The run file's [checkpoint] is kept to: in step() and leave(), in checkpoints/ of the peer's
// folder, the newest three. [task] is only compared, [evaluate] is nothing here; of [stop] steps
// and samples count. averaging.delayed is not done: step() waits for each average (a warning says
// so).
//
// Errors: cannot_compute (one gradient after the other is left out), local_fault (the disk),
// conflict (another run or model), unsupported (a run with local updates), bad_input, peer_gone,
// timeout, denied: as collab::Node's and CollaborationService's. Where votes cannot be written for
// half a minute, step() fails and the session has ended: the others need the votes of all who take
// part. After a failed step() what was summed may be gone; the loop may go on, or leave(). Thread:
// one at a time; peers() and status(): any. Cost: one pass over the gradients a call, two copies of
// the model to and from the CPU a global step.

#pragma once
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/base/time.h"
#include "dedloc/collab/collaboration_service.h"
#include "dedloc/events/events.h"
#include "dedloc/trainer/checkpoint_saver.h"
#include "dedloc/trainer/fingerprint.h"
#include "dedloc/trainer/gradients.h"
#include "dedloc/trainer/not_finite.h"
#include "dedloc/trainer/sample_counter.h"
#include "dedloc/trainer/step_driver.h"

namespace dedloc::trainer {

struct OwnLoopOptions {
    std::string run_file{};  // host a new run from this file…
    std::string join{};      // …or join one by its join string
    // Host: go on from this checkpoint, or the newest of this folder (a peer's own, say). Without a
    // run_file the one that was saved with it counts.
    std::string resume{};
    // Identity and bookkeeping of this peer, one process at a time; made if it is missing.
    std::string directory = "dedloc-peer";
    std::string name{};                                        // for people
    std::vector<std::string> listen = {"/ip4/0.0.0.0/tcp/0"};  // empty: others cannot dial us
    std::vector<std::string> announce{};  // addresses at which others reach us, if not those
    std::vector<std::string> relays{};    // addresses with /p2p/<id> to stay connected to
    Duration patience = std::chrono::seconds(60);  // to find the run and its state
    // Names of buffers that each peer keeps to itself; the same on all peers. For the layer above,
    // which makes Gradients and Fingerprint.
    std::vector<std::string> private_buffers{};
    // Asked a few times a second, by the loop's thread, while join() loads the state or step()
    // waits for others; false: these return cancelled. A step() that was cancelled is still being
    // made: the next one waits for it.
    std::function<bool()> goes_on{};
    // Told what happens (docs/events.md), on the network thread: it must not block, and outlives
    // the loop.
    events::EventSink* events = nullptr;
};

class VoteWatch;

class OwnLoop {
  public:
    // Returns when the model holds the collaboration's present parameters: its own for a host, the
    // checkpoint's for one that resumes, downloaded ones for one that joins.
    static Result<std::unique_ptr<OwnLoop>> join(std::unique_ptr<Gradients> gradients,
                                                 const Fingerprint& fingerprint,
                                                 OwnLoopOptions options);
    ~OwnLoop();  // leaves, waiting little

    // After a backward pass of the MEAN loss over `samples` samples (NaN: others see no loss of
    // this peer). True if the model has new parameters now. Once the run is over it only loads its
    // last state. At most batch.target samples.
    Result<bool> step(std::int64_t samples, double mean_loss);
    void zero_grad() { gradients_->forget_gradient(); }
    // Hands in what was computed if a step comes within `patience`, says goodbye, loads the last
    // state into the model, and saves it. Where that fails (a full disk, say), it can be called
    // again, and does what is left to do.
    Result<void> leave(Duration patience);
    // Forgets what was summed since the last global step: those samples are lost.
    void drop();

    bool finished() const { return collaboration().stopped(); }
    std::string join_string() const;
    PeerId peer_id() const { return node_->id(); }
    // For generators of samples: another one for each peer, and each time that it comes back to a
    // run. It is made of the peer's id and the number of its first sample.
    std::uint64_t seed() const { return seed_; }
    std::uint64_t global_step() const { return collaboration().state()->step(); }
    std::string state_hash() const;  // hexadecimal; equal on all peers at the same step
    membership::Status status() const;
    std::vector<membership::Status> peers() const;
    std::uint64_t target_batch() const { return samples_max_; }
    Gradients& gradients() const { return *gradients_; }

  private:
    OwnLoop(std::unique_ptr<VoteWatch> votes,
            std::unique_ptr<collab::Node> node,
            collab::CollaborationService& service,
            std::unique_ptr<Gradients> gradients,
            SampleCounter counter,
            const run::RunFile& run,
            std::function<bool()> goes_on);
    collab::Collaboration& collaboration() const { return service_.collaboration(); }
    void load(const std::shared_ptr<const state::Snapshot>& snapshot);
    // Buffers, too, where it is the loaded one: own forward passes have moved them. Was it another
    // one?
    bool load_newest();
    void load_last();  // once: afterwards the model is its owner's
    Result<void> add(std::uint64_t samples, double loss_sum);
    Result<void> leave_out(std::uint64_t samples);
    // One batch at most of a step in which this line rests: more would only count twice, there and
    // in what the others compute instead.
    Result<bool> hand_in_if_due();
    // Hands in what there is; `gone`: only until then.
    Result<bool> hand_in(std::future<Result<void>>* gone = nullptr);
    void save_if_due();
    Result<void> save_last();
    // Leaves at once where our votes cannot be written.
    Result<void> end_without_votes();

    std::function<bool()> goes_on_;     // empty: always
    std::unique_ptr<VoteWatch> votes_;  // outlives the node, which tells it
    std::unique_ptr<collab::Node> node_;
    collab::CollaborationService& service_;  // the node's
    // The most samples of one step(). Nobody computes on when the batch is full, so that a
    // contribution is less than two batches, which rounds take; of more they would take no part,
    // for ever.
    std::uint64_t samples_max_;
    double norm_max_;  // of one sample's gradient
    std::unique_ptr<Gradients> gradients_;
    SampleCounter counter_;
    std::uint64_t seed_;
    CheckpointSaver saver_;
    StepDriver driver_;
    std::future<Result<collab::StepOutcome>> step_;  // valid: a step is being made
    NotFiniteInARow not_finite_;
    NotFiniteInARow refused_{refused_in_a_row_max};
    TimePoint computing_since_;
    std::weak_ptr<const state::Snapshot> loaded_;  // what the model holds
    bool left_ = false;
    std::future<Result<void>> parting_;  // valid: the collaboration is being left
    bool has_last_ = false;              // the model has what it shall have in the end
};

}  // namespace dedloc::trainer
