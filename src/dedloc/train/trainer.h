// Trainer: a thread that feeds a loop (loop.h) with micro-batches of a model that computes its own
// samples, until the run is over.
//
//   train::Trainer trainer(spawn, clock, disk, collaboration, std::move(model), options);
//   trainer.start();
//   ...                                     // options.on_end is called when it ends by itself
//   trainer.stop(5s);                       // hands in what it has, waits at most that long
//   Result<void> how = trainer.join();
//
// stop() does not wait for an evaluation.
//
// Lifetime: what is passed outlives join(); the scope behind `spawn` is stopped by its owner.
// Thread: any but the network thread (stop: any). Errors of join(): the loop's, also where a model
// throws; bad_input for unusable options.

#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "dedloc/train/loop.h"
#include "dedloc/train/micro_batch_tuning.h"

namespace dedloc::train {

struct TrainerOptions {
    LoopOptions loop{};
    std::uint64_t micro_batch = 64;    // run.batch.micro; micro_auto: found by measuring
    MicroBatchOptions micro_search{};  // how far to look for it
    // A machine that others used misleads a search: the next one, from half of what was found on.
    Duration micro_search_again = 10min;
    // False: another device does. The thread that feeds it needs little of the CPU, but at once.
    bool computes_on_cpu = true;
    // Bytes in use by this process; empty: not known.
    std::function<std::uint64_t()> memory;
    // Called on the trainer's thread when a search is over that found another size than is used.
    std::function<void(const MicroBatchSearch&)> on_micro_batch;
    // Called on the trainer's thread when the run is over or failed, not after stop().
    std::function<void(const Result<void>&)> on_end;
};

class Trainer {
  public:
    Trainer(runtime::Spawn spawn,
            runtime::Clock& clock,
            runtime::Disk& disk,
            collab::Collaboration& collaboration,
            std::unique_ptr<SampledModel> model,
            TrainerOptions options);
    ~Trainer();  // stop(0) and join()
    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;

    void start();
    // Asks for the end and returns at once: the present micro-batch is finished, the sums are
    // handed in, and the decision is awaited no longer than `grace_period` from now. To leave in
    // order, call this, then await collaboration.leave(), then join().
    void stop(Duration grace_period);
    // Whether join() would return at once: a gradient that is being computed ends when it does.
    bool has_ended() const { return ended_; }
    Result<void> join();

    std::uint64_t samples_computed() const { return samples_computed_; }

  private:
    Result<void> run();
    Result<void> train();
    Result<void> train_or_say_why();
    Result<void> compute();
    Result<void> compute(collab::CounterRange range);
    Result<void> compute_in_halves(collab::CounterRange range);
    Result<void> wait_on() const;

    runtime::Clock& clock_;
    collab::Collaboration& collaboration_;
    std::unique_ptr<SampledModel> model_;
    TrainerOptions options_;
    MicroBatchTuning micro_batch_;
    Loop loop_;

    std::atomic<bool> stopping_ = false;
    std::atomic<bool> ended_ = false;
    std::atomic<std::int64_t> give_up_at_ = 0;  // TimePoint of clock_, in nanoseconds
    std::atomic<std::uint64_t> samples_computed_ = 0;
    Result<void> outcome_;
    std::thread thread_;
};

}  // namespace dedloc::train
