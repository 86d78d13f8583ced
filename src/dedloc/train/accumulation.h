// Accumulation: what becomes of a model's gradients between two global steps, whoever computes
// them. In a plain run their sum is handed in (GradientSum); with [local] in the run file it feeds
// steps of the peer's own (local_updates.h).
//
//   accumulation->begin_at(state);              // nothing is summed up
//   … a micro-batch's gradients are in the model's sum …
//   if (!accumulation->computed(samples, finite)) …  // nothing came of them: they are left out
//   accumulation->take(sum, changes, samples);  // what is handed in
//   accumulation->move_to(newer);               // a delayed step is made: what was summed stays
//
// Thread: the loop's. Errors: what the model throws. Lifetime: the model outlives it.

#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dedloc/run/run_file.h"
#include "dedloc/state/snapshot.h"
#include "dedloc/train/model.h"

namespace dedloc::train {

class Accumulation {
  public:
    virtual ~Accumulation() = default;
    // The model goes to this state, and what was summed is forgotten.
    virtual void begin_at(const state::Snapshot& state) = 0;
    // The same, and what was summed stays.
    virtual void move_to(const state::Snapshot& state) = 0;
    // So many samples more are in the model's sum. False: they bring nothing.
    virtual bool added(std::uint64_t samples) = 0;
    // A gradient was not finite, and is not in the sum.
    virtual void left_out() {}
    // Either, of a micro-batch; its samples count if true.
    bool computed(std::uint64_t samples, bool finite) {
        if (finite) return added(samples);
        left_out();
        return false;
    }
    // `samples`: all since the last take().
    virtual void take(std::span<float> sum, std::span<float> changes, std::uint64_t samples) = 0;
    // Forgets what was summed, at the state where it is.
    virtual void forget() = 0;
};

class GradientSum final : public Accumulation {
  public:
    explicit GradientSum(Model& model) : model_(model) {}
    void begin_at(const state::Snapshot& state) override;
    void move_to(const state::Snapshot& state) override;
    bool added(std::uint64_t samples) override;
    void take(std::span<float> sum, std::span<float> changes, std::uint64_t samples) override;
    void forget() override;

  private:
    Model& model_;
    // Samples since the last take(), at this state and at those before move_to(), and what these
    // made of the buffers, times their samples.
    std::uint64_t here_ = 0;
    std::uint64_t elsewhere_ = 0;
    std::vector<float> changes_elsewhere_;
};

// `local`: the run's [local]. `is_checked`: others compute contributions again.
std::unique_ptr<Accumulation> make_accumulation(const std::optional<run::LocalConfig>& local,
                                                bool is_checked,
                                                Model& model);

}  // namespace dedloc::train
