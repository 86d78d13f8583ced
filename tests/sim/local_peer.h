// LocalPeer: a simulated trainer's local updates (train/local_updates.h), and beside them a book of
// the way that it has gone since the last global step: what is handed in must be that way, and what
// was done beside a round must be done again from the state that came of it. In a robust run it
// also computes again what others handed in.
//
// Thread: the world's.

#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dedloc/consensus/member_input.h"
#include "dedloc/run/layout.h"
#include "dedloc/run/run_file.h"
#include "dedloc/state/snapshot.h"
#include "dedloc/train/accumulation.h"
#include "dedloc/validation/check_job.h"

namespace dedloc::lab {

class LocalPeer {
  public:
    // Adds the gradients of these samples of `author` at a state of this global step.
    using AddGradient = std::function<void(const PeerId& author,
                                           std::uint64_t step,
                                           consensus::CounterRange samples,
                                           std::span<const float> parameters,
                                           std::span<float> sum)>;
    using Complain = std::function<void(const std::string& what)>;

    // A trainer of this run, which has [local].
    LocalPeer(const run::Layout& layout,
              const run::RunFile& run,
              const PeerId& self,
              AddGradient add_gradient,
              Complain complain);
    ~LocalPeer();

    void begin_at(const state::Snapshot& state);
    void move_to(const state::Snapshot& state);
    void compute(consensus::CounterRange samples);
    void take(std::span<float> sum, std::uint64_t samples);
    // begin_at() is to follow.
    Result<validation::CheckResult> again(const validation::CheckJob& job);

  private:
    class LocalModel;

    Complain complain_;
    std::unique_ptr<LocalModel> model_;
    std::unique_ptr<train::Accumulation> accumulation_;
    std::uint64_t fragments_;
    std::uint64_t micro_batch_;
    std::uint64_t step_ = 0;
    std::vector<float> start_;  // of the way to where the model is
};

}  // namespace dedloc::lab
