// How many samples a trainer computes at a time: the run's number, or one found by measuring, and
// looked for anew now and then, as machines get busy and free again.
//
//   MicroBatchTuning tuning(clock, {.samples = run.batch.micro, …});
//   tuning.begin();
//   compute tuning.next() samples
//   tuning.computed(seconds);                        // or tuning.does_not_fit(samples)
//
// Thread: the trainer's.

#pragma once
#include <limits>
#include <optional>

#include "dedloc/runtime/clock.h"
#include "dedloc/train/micro_batch.h"

namespace dedloc::train {

class MicroBatchTuning {
  public:
    struct Options {
        std::uint64_t samples = 0;  // at a time; run::micro_auto: to be found
        MicroBatchOptions search{};
        Duration again = 10min;  // from one search to the next
        // Bytes in use by this process; empty: not known.
        std::function<std::uint64_t()> memory{};
        // A search is over that found another size than is used.
        std::function<void(const MicroBatchSearch&)> on_found{};
    };

    MicroBatchTuning(runtime::Clock& clock, Options options);

    // Before anything is computed.
    void begin();
    // To compute next.
    std::uint64_t next();
    // The size that was found last.
    std::uint64_t size() const { return size_; }
    void computed(double seconds);
    // The memory ran out for so many samples. False: their number is the run's, not ours.
    bool does_not_fit(std::uint64_t samples);

  private:
    bool is_fixed() const;
    std::uint64_t memory() const { return options_.memory ? options_.memory() : 0; }
    void begin_search(std::uint64_t samples_first);
    void end_search_if_done();

    runtime::Clock& clock_;
    Options options_;
    std::uint64_t size_;
    std::optional<MicroBatchSearch> search_;  // while there is something to find
    TimePoint search_at_ = TimePoint::never();
    std::uint64_t samples_fit_ = std::numeric_limits<std::uint64_t>::max();  // what memory showed
    TimePoint more_fit_at_;
    std::uint64_t memory_before_ = 0;  // anything was computed
};

}  // namespace dedloc::train
