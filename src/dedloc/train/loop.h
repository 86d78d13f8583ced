// Loop: one peer's training, whoever computes the gradients. It numbers samples, sums up what the
// model's gradients become (accumulation.h), hands it in when the collaboration says that a step is
// due, gives the model the state that comes out, checks others' gradients and evaluates when it is
// this peer's turn. The trainer's thread (trainer.h) drives it, and loops of one's own do
// (session.h):
//
//   DEDLOC_TRY_VOID(loop.begin());
//   while (true) {
//       DEDLOC_TRY(const bool more, loop.until_compute());
//       if (!more) break;
//       DEDLOC_TRY(const CounterRange range, loop.take_numbers(count));
//       … their gradients into the model's sum …
//       DEDLOC_TRY(const bool count, loop.computed(range, report, seconds));
//   }
//   DEDLOC_TRY_VOID(loop.finish());
//   DEDLOC_TRY_VOID(loop.end());
//
// With `delayed` nobody waits for a step: gradients are computed while it is made, for the step
// after, and the model gets the new state at a later call. With `begins_early` the only voter of a
// run waits for the new state, but not for its own vote to be written: what it computes meanwhile
// is forgotten where that fails.
//
// Held-out data is evaluated every so many steps by one peer only (evaluation_turn.h): in a second
// thread, where there is a second model for it, else between two micro-batches. When the run is
// over, the final state is evaluated too.
//
// Lifetime: what is passed outlives it; the scope behind `spawn` is stopped by its owner.
// Thread: one, not the network thread; stop(): any. Errors: what the model or the disk (that for
// half a minute) said; cannot_compute (one gradient after the other is left out); cancelled:
// options.goes_on ended a wait, and the next call waits on.

#pragma once
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "dedloc/collab/collaboration.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/disk.h"
#include "dedloc/runtime/future.h"
#include "dedloc/train/accumulation.h"
#include "dedloc/train/evaluation_turn.h"
#include "dedloc/train/not_finite.h"
#include "dedloc/train/sample_counter.h"
#include "dedloc/train/step_driver.h"

namespace dedloc::train {

class Evaluator;

struct LoopOptions {
    bool delayed = false;  // run.averaging.delayed: compute while a step is made
    // The model may have the state of a step before the step is certified, which nobody is told of.
    bool begins_early = false;
    double norm_max = 0;                      // of one sample's gradient (norm_max_of_one); 0: any
    std::uint64_t evaluate_every = 10;        // run.evaluate_every; 0: never
    std::optional<run::LocalConfig> local{};  // run.local
    bool is_checked = false;                  // run.is_checked()
    std::string counter_path = "samples";
    Duration disk_tried_again_after = std::chrono::seconds(1);  // a full one, for half a minute
    // For a thread that evaluates. Empty: the loop's own does, if `evaluates_between`.
    std::function<Result<std::unique_ptr<SampledModel>>()> make_evaluator{};
    bool evaluates_between = false;
    // Asked a few times a second while it waits: an error ends the wait with it. Empty: it waits
    // on.
    std::function<Result<void>()> goes_on{};
    // Told when the model has got the state that came out of a step. May be empty.
    std::function<void(const std::shared_ptr<const state::Snapshot>&)> on_state{};
    // For experiments with peers that err: changes what this peer hands in of a global step …
    std::function<void(std::uint64_t step, std::span<float> sum)> falsify{};
    // … and what it finds that another one had to hand in.
    std::function<void(const PeerId& author, std::uint64_t step, std::span<float> sum)>
        falsify_check{};
};

// The options that a run gives all loops in it.
LoopOptions loop_options(const run::RunFile& run);

class Loop {
  public:
    // `samples` may be null: then somebody else computes, and nobody evaluates.
    Loop(runtime::Spawn spawn,
         runtime::Clock& clock,
         runtime::Disk& disk,
         collab::Collaboration& collaboration,
         Model& model,
         Samples* samples,
         LoopOptions options);
    ~Loop();

    // Gives the model the run's present state. Errors: conflict: there is none yet.
    Result<void> begin();
    // Does what is due until a gradient is to be computed; false: nothing more is.
    Result<bool> until_compute();
    // The numbers of so many samples that are computed next.
    Result<collab::CounterRange> take_numbers(std::uint64_t count);
    std::uint64_t next_number() const { return counter_->next(); }
    // The samples are in the model's sum, or left out: do they count?
    Result<bool> computed(collab::CounterRange range, GradientReport report, double seconds);
    // Forgets what was summed since the last hand-in: those samples are lost.
    void forget();
    // The sizes in which other peers' samples are computed again.
    void check_in(std::uint64_t micro_batch) { micro_batch_ = micro_batch; }

    // Nothing more is computed: waits for the step that is being made, and hands in what there is.
    Result<void> finish();
    bool has_something() const { return in_flight_.valid() || driver_->samples().size() > 0; }
    // A step that this loop handed in for is being made; or a pause keeps what it would hand in.
    bool has_handed_in() const { return in_flight_.valid() || pause_keeps_samples_; }
    // After finish(), when the run is over: evaluates the end if that is ours to do.
    void evaluate_the_end();
    // Until the evaluations end; or stop().
    void wait_for_evaluations();
    // Gives unused numbers back.
    Result<void> end();

    // Nothing more is to be computed.
    void stop() { stopping_ = true; }
    bool is_over() const { return stopping_ || collaboration_.stopped(); }
    // Gives the model this state, and forgets what was summed.
    void begin_at(const state::Snapshot& state);
    // The same, and keeps it.
    void go_on_at(const state::Snapshot& state);
    // From now on this is asked instead of options.goes_on.
    void wait_only_while(std::function<Result<void>()> goes_on) {
        options_.goes_on = std::move(goes_on);
    }

  private:
    struct Stepped {
        collab::StepOutcome outcome;
        EvaluationTurn turn;
        bool evaluates = false;
    };
    using State = std::shared_ptr<const state::Snapshot>;
    class NextState;

    // Keeps `next` until the step has ended.
    static Task<Result<Stepped>> step_task(collab::Collaboration& collaboration,
                                           collab::Contribution contribution,
                                           EvaluationTurn turn,
                                           std::shared_ptr<NextState> next);
    static Task<Result<bool>> ask_evaluates(const collab::Collaboration& collaboration,
                                            std::uint64_t step,
                                            EvaluationTurn turn);

    Result<void> goes_on() const { return options_.goes_on ? options_.goes_on() : Ok(); }
    Result<void> check_another();
    bool keeps_its_samples() const;
    // True while the run goes on. `ahead`: returns when the step has begun.
    Result<bool> hand_in(bool ahead);
    // Waits for the state that the step leads to, or for its end, whichever comes first.
    Result<bool> take_next_state();
    Result<bool> take_outcome();
    Result<bool> step_failed(const Error& error);
    void evaluate_if_due(const Stepped& stepped);
    void evaluate(const std::shared_ptr<const state::Snapshot>& state);
    bool evaluates() const {
        return options_.evaluate_every > 0 && (evaluator_ || options_.evaluates_between);
    }

    runtime::Spawn spawn_;
    runtime::Clock& clock_;
    runtime::Disk& disk_;
    collab::Collaboration& collaboration_;
    Model& model_;
    Samples* samples_;
    LoopOptions options_;
    std::unique_ptr<Accumulation> accumulation_;
    std::uint64_t micro_batch_ = 1;

    std::optional<SampleCounter> counter_;  // since begin(), as the next one
    std::optional<StepDriver> driver_;
    std::future<Result<Stepped>> in_flight_;  // valid while a step is being made
    std::future<State> next_state_;           // valid until the state of that has been looked at
    State early_;                             // that the model has while the step is being made
    bool pause_keeps_samples_ = false;        // since until_compute() was called
    std::uint64_t step_ = 0;                  // of the state that the model has
    int failures_in_a_row_ = 0;
    NotFiniteInARow not_finite_;
    NotFiniteInARow refused_{refused_in_a_row_max};
    EvaluationTurn turn_;
    std::uint64_t evaluated_step_ = 0;
    std::unique_ptr<Evaluator> evaluator_;
    std::atomic<bool> stopping_ = false;
};

}  // namespace dedloc::train
