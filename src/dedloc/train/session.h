// LoopSession: a training loop that somebody wrote himself as a peer of a run, over memory of his
// own.
// torch_bridge's CollaborativeOptimizer, the C interface and Python's Optimizer are thin layers
// over it; what it does is the engine's (loop.h), as in `dedloc join`.
//
//   DEDLOC_TRY(auto session, LoopSession::join(model, fingerprint, {.run_file = "run.toml"}));
//   while (!session->finished()) {
//       … a forward and a backward pass …
//       DEDLOC_TRY(const bool has_new_parameters, session->step(samples, mean_loss));
//   }
//   DEDLOC_TRY_VOID(session->leave(10s));
//
// The optimizer, its learning rates and the target batch are in the run file, the same for all.
// step() only adds up gradients until the target batch of the whole collaboration is full; then it
// takes part in the averaging and loads the new parameters. It blocks for that long, but in a run
// with averaging.delayed: there gradients are computed while the step is made, and the state is
// loaded in a later step(). In a run with [local] it makes inner steps of its own meanwhile. Others
// may make steps, the run's last one too, while this loop is in a forward or backward pass:
// global_step() and state_hash() are ahead of the model then.
//
// Samples: every peer has to draw others, in another order; seed() is for that. Where samples are a
// function of their numbers (LoopCalls::compute), step(n) takes next_sample() and those after it,
// computes them itself if there is no gradient, and this peer checks others' in a robust run.
//
// LoopCalls::evaluate measures the model every evaluate_every steps, when it is this peer's turn:
// one peer does at a time. The measure stops the run as anybody's.
//
// A batch whose mean gradient is not finite, or longer than averaging.norm_max, leaves no trace in
// what is handed in.
//
// The run file's [checkpoint] is kept to: in step() and leave(), in checkpoints/ of the peer's
// folder, the newest three. [task] is only compared. The folder has events.jsonl and join.txt, as
// every peer's.
//
// Errors: cannot_compute (one gradient after the other is left out), local_fault (the disk),
// conflict (another run or model), bad_input (the model is no longer what joined), peer_gone,
// timeout, denied: as collab::Node's and CollaborationService's. Where votes cannot be written for
// half a minute, step() fails and the session has ended: the others need the votes of all who take
// part. After a failed step() what was summed may be gone; the loop may go on, or leave().
//
// Thread: one at a time; peers(), traffic_with(), status() and set_paused(): any. Cost: one pass
// over the gradients a call, two copies of the model to and from the CPU a global step.

#pragma once
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/base/time.h"
#include "dedloc/collab/collaboration_service.h"
#include "dedloc/collab/node_traffic.h"
#include "dedloc/events/events.h"
#include "dedloc/monitor/tensorboard_writer.h"
#include "dedloc/train/called_samples.h"
#include "dedloc/train/checkpoint_saver.h"
#include "dedloc/train/fingerprint.h"
#include "dedloc/train/loop.h"
#include "dedloc/train/session_files.h"

namespace dedloc::train {

struct SessionOptions {
    std::string run_file{};  // host a new run from this file…
    std::string run_text{};  // …or from this text of one…
    std::string join{};      // …or join one by its join string
    // Host: go on from this checkpoint, or the newest of this folder (a peer's own, say). Without a
    // run_file the one that was saved with it counts.
    std::string resume{};
    // Host: "list": this run lets in by invitation (`dedloc invite NAME --dir FOLDER`), whether or
    // not its file has [access]. Empty: as the file says.
    std::string admit{};
    // Identity and bookkeeping of this peer, one process at a time; made if it is missing.
    std::string directory = "dedloc-peer";
    std::string name{};  // for people
    // "0.0.0.0:4001", "127.0.0.1:0", multiaddrs (wire/written_addresses.h). Empty, or only "none":
    // others cannot dial us.
    std::vector<std::string> listen = {"/ip4/0.0.0.0/tcp/0"};
    // Addresses at which others reach us, if not those: "203.0.113.7:4001", a name and a port, …
    std::vector<std::string> announce{};
    std::vector<std::string> relays{};            // multiaddrs with /p2p/<id> to stay connected to
    Duration timeout = std::chrono::seconds(60);  // to find the run and its state
    // Names of buffers that each peer keeps to itself; the same on all peers. For the layer above,
    // which makes Model and Fingerprint.
    std::vector<std::string> private_buffers{};
    // The loop can do this beyond its own gradients.
    LoopCalls calls{};
    std::optional<std::uint64_t> evaluate_every{};  // steps; none: the run file's
    // Asked a few times a second, by the loop's thread, while join() loads the state or step()
    // waits for others; false: these return cancelled. A step() that was cancelled is still being
    // made: the next one waits for it.
    std::function<bool()> goes_on{};
    // The longest that step() and leave() wait for others before they return cancelled, to be
    // called again: for languages that handle signals between calls. goes_on is then of join()
    // alone. 0: as long as it takes.
    Duration wait_max{0};
    // A folder that gets event files of TensorBoard, of this peer alone; empty: none.
    std::string tensorboard{};
    // Told what happens (docs/events.md), on the network thread: it must not block, and outlives
    // the session.
    events::EventSink* events = nullptr;
};

class VoteWatch;

class LoopSession {
  public:
    // Returns when the model holds the collaboration's present parameters: its own for a host, the
    // checkpoint's for one that resumes, downloaded ones for one that joins.
    static Result<std::unique_ptr<LoopSession>> join(std::unique_ptr<Model> model,
                                                     const Fingerprint& fingerprint,
                                                     SessionOptions options);
    ~LoopSession();  // leaves, waiting little

    // After a backward pass of the MEAN loss over `samples` samples (NaN: others see no loss of
    // this peer). True if the model has new parameters now. Once the run is over it only loads its
    // last state. At most batch.target samples.
    Result<bool> step(std::int64_t samples, double mean_loss);
    void zero_grad() { model_->forget_gradient(); }
    // Hands in what was computed if a step comes within `grace_period`, says goodbye, loads the
    // last state into the model, and saves it. Where that fails (a full disk, say), it can be
    // called again, and does what is left to do: within the shorter of the two grace periods.
    Result<void> leave(Duration grace_period);
    // Forgets what was summed since the last global step: those samples are lost.
    void drop();
    // Loads the run's present state into the model, whatever that holds.
    void reload() { (void)load_newest(); }

    // Any thread: step() keeps what it was given and waits, as this peer computes nothing, or goes
    // on again. The peer keeps up with the run meanwhile.
    void set_paused(bool paused);
    bool paused() const { return collaboration().paused(); }

    bool finished() const { return collaboration().stopped(); }
    std::string join_string() const;
    PeerId peer_id() const { return node_->id(); }
    // For generators of samples: another one for each peer, and each time that it comes back to a
    // run. It is made of the peer's id and the number of its first sample.
    std::uint64_t seed() const { return seed_; }
    std::uint64_t next_sample() const { return loop_->next_number(); }
    std::uint64_t global_step() const { return collaboration().state()->step(); }
    std::string state_hash() const;  // hexadecimal; equal on all peers at the same step
    membership::Status status() const;
    std::vector<membership::Status> peers() const;
    // Bytes that this peer's connections to them carried so far.
    std::vector<collab::TrafficWith> traffic_with(
        const std::vector<membership::Status>& peers) const;
    const run::RunFile& run() const { return run_; }
    double learning_rate() const;  // of the next step; with local updates of an inner one
    std::uint64_t target_batch() const { return run_.batch.target; }
    double vector_bytes() const;  // of a gradient or an average, encoded
    Model& model() const { return *model_; }
    const collab::Node& node() const { return *node_; }

  private:
    LoopSession(std::unique_ptr<collab::Node> node,
                collab::CollaborationService& service,
                std::unique_ptr<SessionFiles> files,
                std::unique_ptr<Model> model,
                run::RunFile run);
    Ok begin_tensorboard(const std::string& folder);
    collab::Collaboration& collaboration() const { return service_.collaboration(); }
    Ok offer(const SessionOptions& options);
    Result<void> begin_loop(SessionOptions options);
    // Buffers, too, where it is the loaded one: own forward passes have moved them. Was it another
    // one?
    bool load_newest();
    void load_last();  // once: afterwards the model is its owner's
    Result<bool> try_step(std::int64_t samples, double mean_loss);
    Result<void> check_step(std::int64_t samples) const;
    Result<void> add(std::uint64_t samples, double mean_loss);
    Result<GradientReport> sum_up(collab::CounterRange range, bool has, double mean_loss);
    bool step_over();
    Result<void> may_wait();
    void save_if_due();
    Result<void> save_last();
    Result<void> hand_in_last();
    Result<void> is_in_time() const;
    // Leaves at once where our votes cannot be written.
    Result<void> end_without_votes();

    std::function<bool()> goes_on_;  // empty: always
    Duration wait_max_{0};
    TimePoint called_at_;               // step() or leave()
    std::unique_ptr<VoteWatch> votes_;  // these outlive the node, which tells them
    std::unique_ptr<SessionFiles> files_;
    std::unique_ptr<monitor::TensorboardWriter> tensorboard_;  // null: without
    std::unique_ptr<monitor::EventFan> fan_;
    std::unique_ptr<collab::Node> node_;
    collab::CollaborationService& service_;  // the node's
    run::RunFile run_;
    std::unique_ptr<Model> model_;
    std::unique_ptr<CalledSamples> samples_;  // null: the loop offers nothing beyond gradients
    bool computes_samples_ = false;
    std::unique_ptr<Loop> loop_;
    std::uint64_t seed_ = 0;
    CheckpointSaver saver_;
    TimePoint computing_since_;
    std::weak_ptr<const state::Snapshot> loaded_;  // what the model holds
    bool has_new_state_ = false;                   // since step() was called
    bool waits_ = false;                           // the last step() was cancelled in its wait
    bool begun_ = false;                           // the collaboration
    bool left_ = false;
    std::future<Result<void>> parting_;  // valid: the collaboration is being left
    bool has_last_ = false;              // the model has what it shall have in the end
};

}  // namespace dedloc::train
