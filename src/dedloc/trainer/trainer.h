// Trainer: one peer's training, in a thread of its own. It computes micro-batches at the latest
// committed state, reports them, hands in its sums when the collaboration says that a step is due,
// and goes on from the state that comes out. With `delayed` it does not wait for that: it goes on
// computing while the step is made, for the step after.
//
// Held-out data is evaluated every so many steps by one peer only: the first trainer in the order
// of PeerIds among those who are there to stay; in a second thread, so that training does not wait.
// Where nobody has measured anything for long, that one cannot (no memory for it, say), and the one
// after it takes over: longer than it takes those who can.
// When the run is over, the final state is evaluated too; stop() does not wait for an evaluation.
//
//   trainer::Trainer trainer(spawn, clock, disk, collaboration, std::move(learner), options);
//   trainer.start();
//   ...                                     // options.on_end is called when it ends by itself
//   trainer.stop(5s);                       // hands in what it has, waits at most that long
//   Result<void> how = trainer.join();
//
// Lifetime: what is passed outlives join(); the scope behind `spawn` is stopped by its owner.
// Thread: any but the network thread (stop: any). Errors of join(): what the learner or the disk
// (that for half a minute) said, also where a learner throws; bad_input for unusable options.

#pragma once
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "dedloc/collab/collaboration.h"
#include "dedloc/runtime/future.h"
#include "dedloc/trainer/micro_batch_tuning.h"
#include "dedloc/trainer/not_finite.h"
#include "dedloc/trainer/sample_counter.h"
#include "dedloc/trainer/step_driver.h"

namespace dedloc::trainer {

class Evaluator;

struct TrainerOptions {
    std::uint64_t micro_batch = 64;     // run.batch.micro; micro_auto: found by measuring
    std::uint64_t evaluate_every = 10;  // run.evaluate_every; 0: never
    bool delayed = false;               // run.averaging.delayed: compute while a step is made
    double norm_max = 0;  // of one sample's gradient (Learner::norm_max_of_one); 0: any
    std::string counter_path = "samples";
    MicroBatchOptions micro_search{};  // how far to look for it
    // A machine that others used misleads a search: the next one, from half of what was found on.
    Duration micro_search_again = 10min;
    Duration disk_tried_again_after = 1s;  // a full one, for half a minute
    // False: another device does. The thread that feeds it needs little of the CPU, but at once.
    bool computes_on_cpu = true;
    // Bytes in use by this process; empty: not known.
    std::function<std::uint64_t()> memory;
    // Called on the trainer's thread when a search is over that found another size than is used.
    std::function<void(const MicroBatchSearch&)> on_micro_batch;
    // For the evaluating thread; empty: this peer never evaluates.
    std::function<Result<std::unique_ptr<collab::Learner>>()> make_evaluator;
    // Called on the trainer's thread when the run is over or failed, not after stop().
    std::function<void(const Result<void>&)> on_end;
};

// When it is somebody's turn to evaluate.
struct EvaluationTurn {
    std::uint64_t since = 0;  // the step at which we began: what is missed counts from there
    std::uint64_t every = 0;  // steps
    // The trainers before us: which step they measured last since then, and how many were made
    // meanwhile.
    std::uint64_t measured = 0;
    std::uint64_t taken = 0;
};

class Trainer {
  public:
    Trainer(runtime::Spawn spawn,
            runtime::Clock& clock,
            runtime::Disk& disk,
            collab::Collaboration& collaboration,
            std::unique_ptr<collab::Learner> learner,
            TrainerOptions options);
    ~Trainer();  // stop(0) and join()
    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;

    void start();
    // Asks for the end and returns at once: the present micro-batch is finished, the sums are
    // handed in, and the decision is awaited no longer than `patience` from now. To leave in
    // order, call this, then await collaboration.leave(), then join().
    void stop(Duration patience);
    // Whether join() would return at once: a gradient that is being computed ends when it does.
    bool has_ended() const { return ended_; }
    Result<void> join();

    std::uint64_t samples_computed() const { return samples_computed_; }

  private:
    struct Stepped {
        collab::StepOutcome outcome;
        EvaluationTurn turn;
        bool evaluates = false;
    };
    static Task<Result<Stepped>> step_task(collab::Collaboration& collaboration,
                                           collab::Contribution contribution,
                                           EvaluationTurn turn);
    static Task<Result<bool>> ask_evaluates(const collab::Collaboration& collaboration,
                                            std::uint64_t step,
                                            EvaluationTurn turn);

    Result<void> run();
    Result<void> train(SampleCounter& counter);
    Result<void> train_or_say_why(SampleCounter& counter);
    Result<void> check_another();
    Result<void> compute(SampleCounter& counter);
    Result<collab::CounterRange> take(SampleCounter& counter, std::uint64_t count);
    Result<void> compute(collab::CounterRange range);
    Result<void> compute_in_halves(collab::CounterRange range);
    // True while the run goes on. `ahead`: returns when the step has begun.
    Result<bool> hand_in(bool ahead);
    Result<bool> take_outcome();
    void evaluate_if_due(const Stepped& stepped);
    void evaluate_the_end();
    void go_on_from(const state::Snapshot& state);
    // Forgets what was accumulated.
    bool start_from(const std::shared_ptr<const state::Snapshot>& state);
    bool is_over() const;  // nothing more is to be computed
    bool patience_is_over() const;

    runtime::Spawn spawn_;
    runtime::Clock& clock_;
    runtime::Disk& disk_;
    collab::Collaboration& collaboration_;
    std::unique_ptr<collab::Learner> learner_;
    TrainerOptions options_;
    run::Layout layout_;

    MicroBatchTuning micro_batch_;
    std::optional<StepDriver> driver_;        // since train() began
    std::future<Result<Stepped>> in_flight_;  // valid while a step is being made
    int failures_in_a_row_ = 0;
    NotFiniteInARow not_finite_;
    NotFiniteInARow refused_{refused_in_a_row_max};
    EvaluationTurn turn_;
    std::uint64_t evaluated_step_ = 0;
    std::unique_ptr<Evaluator> evaluator_;

    std::atomic<bool> stopping_ = false;
    std::atomic<bool> ended_ = false;
    std::atomic<std::int64_t> give_up_at_ = 0;  // TimePoint of clock_, in nanoseconds
    std::atomic<std::uint64_t> samples_computed_ = 0;
    Result<void> outcome_;
    std::thread thread_;
};

}  // namespace dedloc::trainer
