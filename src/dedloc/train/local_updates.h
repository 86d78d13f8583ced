// Local updates with an outer optimizer (DiLoCo): what is handed in is a pseudo-gradient, the
// difference that the peer's own steps have made since the last global step.
//
// Between two averages a peer makes inner steps: after every `batch` samples one step of an
// optimizer of its own, on the mean gradient of those samples, at parameters of its own. What it
// hands in is (start - end) × samples, so that the weighted mean over the peers is the mean
// pseudo-gradient, which the run's [optimizer] takes for the averaged gradient. Averaging,
// certificates and state are those of any run, and all peers are bit-identical at each global step.
//
// With averaging.delayed the inner steps go on while the pseudo-gradient is averaged. When the
// outer step is there, the way made meanwhile is made again from the new state (Streaming DiLoCo,
// 2501.18512): nothing of it is lost, and it is part of the next pseudo-gradient.
//
// With `fragments` a global step moves one range of the vector, in turn (Streaming DiLoCo).
// The others go on from where their own steps are: what these make of a fragment since it was last
// handed in is its pseudo-gradient.
//
// Private, never averaged, gone with the process: the inner parameters, which start anew from every
// global step's state; the inner optimizer's moments and count of steps, which are kept from one
// global step to the next, as in the paper. The inner learning rate follows from the global step,
// so that who comes late has the others'; bias corrections go by the count of own inner steps.
//
// In a run whose contributions others compute again (InnerMoments::of_one_step), moments and count
// begin at zero at every global step, too. So a pseudo-gradient is a function of the state, the
// sample numbers and the run file: inner steps end where these say.
//
// When the global step is due in the middle of an inner batch, its samples are worth what others
// are: a step on their mean gradient, at the rate × their share of a batch. More than a batch at a
// time (a loop of one's own with large ones) makes one step, at the rate of a batch.
//
// A gradient that is not finite leaves no trace. An inner step that would leave the numbers that
// are finite (a learning rate far too high) leads back to the start, buffers included, and the
// moments to zero; so do several gradients in a row that are not finite, after inner steps:
// these have led where the model gives none that are.
//
// Source: Douillard et al. 2311.08105, algorithm 1.
// Cost:   an inner step takes one pass of the optimizer on the CPU, in the caller's thread, and a
//         copy of the parameters from and to the device. Memory: three vectors as long as the
//         parameters, two as the buffers, and the optimizer's moments.
// Thread, errors: as the model's.

#pragma once
#include <cstdint>
#include <vector>

#include "dedloc/run/run_file.h"
#include "dedloc/train/accumulation.h"

namespace dedloc::train {

// How long the inner optimizer's moments last.
enum class InnerMoments { kept, of_one_step };

class LocalUpdates final : public Accumulation {
  public:
    // `config` has passed parse_run_file().
    LocalUpdates(Model& model, run::LocalConfig config, InnerMoments lasting = InnerMoments::kept);

    void begin_at(const state::Snapshot& state) override;
    void move_to(const state::Snapshot& state) override;
    bool added(std::uint64_t samples) override;
    void left_out() override;
    void take(std::span<float> sum, std::span<float> changes, std::uint64_t samples) override;
    void forget() override;

    // Since the moments were last zero.
    std::uint64_t inner_steps() const { return inner_steps_; }

  private:
    void is_at(std::uint64_t global_step);
    bool inner_step();
    optim::OptimizerConfig optimizer_for(std::uint64_t samples) const;
    bool is_finite() const;
    void forget_moments();
    void forget_inner_steps();
    // The next global step moves this.
    consensus::ElementRange moved() const;

    Model& model_;
    run::LocalConfig config_;
    InnerMoments lasting_;
    run::Layout layout_;
    std::vector<optim::ParameterGroup> groups_;  // of inner steps at the present global one
    std::uint64_t global_step_ = 0;
    std::vector<float> start_;  // parameters of the global step, and …
    std::vector<float> here_;   // … after the inner steps since they were handed in
    std::vector<float> start_buffers_;
    std::vector<float> buffers_;  // as the last inner step left them
    std::vector<float> buffers_change_;
    std::vector<float> gradient_;
    std::vector<std::vector<float>> moments_;
    std::uint64_t inner_steps_ = 0;
    std::uint64_t since_step_ = 0;   // samples in the model's sum
    std::uint64_t since_start_ = 0;  // samples
    int not_finite_in_a_row_ = 0;    // gradients
};

}  // namespace dedloc::train
