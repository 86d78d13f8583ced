// LocalPeer: a simulated trainer's local updates (train/local_updates.h), and beside them a book of
// the way that it has gone since the last global step: what is handed in must be that way, and what
// was done beside a round must be done again from the state that came of it.
//
// Thread: the world's.

#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dedloc/consensus/member_input.h"
#include "dedloc/run/layout.h"
#include "dedloc/run/run_file.h"
#include "dedloc/state/snapshot.h"
#include "dedloc/train/accumulation.h"

namespace dedloc::lab {

class LocalPeer {
  public:
    using AddGradient = std::function<void(
        consensus::CounterRange samples, std::span<const float> parameters, std::span<float> sum)>;
    using Complain = std::function<void(const std::string& what)>;

    LocalPeer(const run::Layout& layout,
              const std::optional<run::LocalConfig>& local,
              AddGradient add_gradient,
              Complain complain);
    ~LocalPeer();

    void begin_at(const state::Snapshot& state);
    void move_to(const state::Snapshot& state);
    void compute(consensus::CounterRange samples);
    void take(std::span<float> sum, std::uint64_t samples);

  private:
    class LocalModel;

    Complain complain_;
    std::unique_ptr<LocalModel> model_;
    std::unique_ptr<train::Accumulation> accumulation_;
    std::uint64_t fragments_;
    std::uint64_t step_ = 0;
    std::vector<float> start_;  // of the way to where the model is
};

}  // namespace dedloc::lab
