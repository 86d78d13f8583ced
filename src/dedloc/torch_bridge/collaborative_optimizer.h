// The front door for people with a libtorch training loop of their own. The loop stays as it is;
// gradients of many computers become one optimizer step.
//
//   using namespace dedloc::torch_bridge;
//   Session session = join(model, {.run_file = "run.toml"});
//   std::cout << session.join_string();               // others: {.join = "dedloc1…"}
//   torch::manual_seed(session.seed());               // for the samples: each peer its own
//   CollaborativeOptimizer optimizer(session);
//   while (!optimizer.finished()) {
//       optimizer.zero_grad();
//       torch::Tensor loss = loss_of(model, batch);   // a mean over the batch
//       loss.backward();
//       optimizer.step(batch_size, loss.item<double>());
//   }
//   session.leave();                                  // save or measure the model after this
//
// The optimizer, its learning rates and the target batch are in the run file, the same for all.
// step() only adds up gradients until the target batch of the whole collaboration is full; then it
// takes part in the averaging (it blocks for that long) and loads the new parameters into the
// model, which from then on are the same bits on every peer. Others may make steps, the run's last
// one too, while this loop is in a forward or backward pass: global_step() and state_hash() are
// ahead of the model then. After leave() it is theirs, BatchNorm's statistics included.
//
// Samples: every peer has to draw others, in another order. Nothing here can see to that, and peers
// with the same seed compute the same batch, which is worth no more than one of them alone. Seed
// what draws them, shuffles and drops out with Session::seed(), after the model is built: frozen
// parameters may need a seed that all have.
//
// All peers share these: parameters that need a gradient are trained together, sparse gradients as
// dense ones; buffers (BatchNorm's statistics and its counter of batches) move by the average of
// their changes, by samples. They are part of the state and of checkpoints. Frozen parameters and
// large buffers of whole numbers (masks, tables: more than 1,024) are neither sent nor averaged:
// they, as the model's structure, must be the host's, and who joins with others is told. A constant
// in a buffer keeps its bits; it must be finite, as all that is averaged. What belongs to one peer
// alone (a queue of keys and its pointer) is named in JoinOptions::private_buffers: it stays as the
// loop makes it, is in no checkpoint, and begins anew when the peer comes back.
//
// A batch whose mean gradient is not finite, or longer than averaging.norm_max, leaves no trace in
// what is handed in, BatchNorm's statistics included.
//
// The run file's [checkpoint] is kept to: in step() and leave(), in checkpoints/ of the peer's
// folder, the newest three (as `dedloc host` does; every = 0: none); events.jsonl and join.txt are
// there, too. [task] is only compared. With averaging.delayed step() does not wait for the average:
// a later call loads it. With [local] the model makes inner steps of its own between two averages.
// JoinOptions::calls says what the loop can do beyond its own gradients: measure the model (every
// [evaluate] every steps, when it is this peer's turn; stop.accuracy goes by it), and compute
// numbered samples of anybody, which the checks of [robust] need.
//
// A model that changes after it joined: other strides and another device are followed; step()
// throws where it was converted, frozen or thawed, given other tensors, or changed in place.
//
// Errors: std::runtime_error with a sentence for people (no such file, nobody reachable, another
// run or model, a disk that is full, one gradient after the other that is left out), or what
// libtorch throws. Where its votes cannot be written for half a minute, step() throws and the
// session has ended: the others need the votes of all who take part. Join again in its directory
// when that is mended.
// Thread: one at a time. Cost: one pass over the parameters a call, two copies to the CPU and back
// a global step.

#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/torch_bridge/libtorch.h"
#include "dedloc/train/session.h"

namespace dedloc::torch_bridge {

using JoinOptions = train::SessionOptions;

class Session {
  public:
    Session(Session&&) noexcept;
    Session& operator=(Session&&) = delete;
    ~Session();  // leaves, waiting little

    std::string join_string() const;  // for others
    std::string peer_id() const;
    // For generators of samples: another one for each peer, and each time that it comes back to a
    // run, or it would compute once more what it has. It is made of the peer's id and the number of
    // its first sample, and stays as it is until the session ends.
    std::uint64_t seed() const;
    std::uint64_t global_step() const;
    std::string state_hash() const;  // hexadecimal; equal on all peers at the same step
    bool finished() const;           // the run's stop condition is met, or it was left
    // Hands in what was computed if a step comes within `grace_period`, says goodbye, loads the
    // last state into the model, and saves it. Where that throws (a full disk, say), it can be
    // called again, and does what is left to do. Call it before the optimizer goes.
    void leave(Duration grace_period = std::chrono::seconds(10));

  private:
    friend Session join(std::shared_ptr<torch::nn::Module> model, JoinOptions options);
    friend class CollaborativeOptimizer;
    explicit Session(std::unique_ptr<train::LoopSession> session);
    std::unique_ptr<train::LoopSession> session_;
};

// Returns when the model holds the collaboration's present parameters: those of `model` for who
// hosts, those of the checkpoint for who resumes, downloaded ones for who joins. The model is on
// the device where it shall compute.
Session join(std::shared_ptr<torch::nn::Module> model, JoinOptions options);

template <typename Impl>
Session join(const torch::nn::ModuleHolder<Impl>& model, JoinOptions options) {
    return join(model.ptr(), std::move(options));
}

class CollaborativeOptimizer {
  public:
    explicit CollaborativeOptimizer(Session& session) : session_(*session.session_) {}

    void zero_grad();
    // After backward() of the MEAN loss over `samples` samples (without it, others see no loss of
    // this peer). True if the model has new parameters now. Once the run is over it only loads its
    // last state. At most batch.target samples.
    bool step(std::int64_t samples, double mean_loss = std::numeric_limits<double>::quiet_NaN());
    bool finished() const;

  private:
    train::LoopSession& session_;
};

}  // namespace dedloc::torch_bridge
