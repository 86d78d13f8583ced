// How many samples a trainer should compute at a time, found by measuring: powers of two, doubled
// while a micro-batch takes less than a second and each doubling gains 5 % in samples a second.
//
// The trainer feeds it what it computes anyway, so no sample is computed for the search alone:
//
//   MicroBatchSearch search({.samples_max = 1024});
//   while (!search.done()) {
//       compute search.size() samples
//       search.measured(seconds, bytes_in_use);      // or search.out_of_memory()
//   }
//   search.size()                                    // from now on
//
// Each size is measured from twice to ten times, for a tenth of a second if it can be, and the
// fastest one counts (once, if that took a second); the very first micro-batch, which also pays for
// what is made but once, does not.
//
// Thread: any; pure. Cost: none, but sizes that turn out too small or too large were used
// meanwhile.

#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "dedloc/base/result.h"
#include "dedloc/base/time.h"
#include "dedloc/train/model.h"

namespace dedloc::train {

struct MicroBatchOptions {
    std::uint64_t samples_first = 2;   // BatchNorm cannot make a variance of one sample
    std::uint64_t samples_max = 1024;  // the largest that makes sense: the target batch
    std::uint64_t bytes_max = 0;       // of memory in use; 0: any
    // So many fitted already: memory that others of this process took since is no reason against
    // them.
    std::uint64_t samples_known = 0;
};

class MicroBatchSearch {
  public:
    // `bytes`: in use before anything is computed; 0: not known, and never a reason to stop.
    explicit MicroBatchSearch(MicroBatchOptions options, std::uint64_t bytes = 0);

    // To compute next; when done: the answer.
    std::uint64_t size() const { return size_; }
    bool done() const { return done_; }
    // The rate of the answer.
    double samples_per_s() const { return best_rate_; }
    double seconds() const { return best_rate_ > 0 ? static_cast<double>(size_) / best_rate_ : 0; }
    // Why not more: "they take 1.3 s".
    const std::string& why() const { return why_; }

    void measured(double seconds, std::uint64_t bytes);
    // size() did not fit: the best so far is the answer, or the half of it.
    void out_of_memory();

  private:
    void decide();
    void end(std::string why);

    MicroBatchOptions options_;
    std::uint64_t bytes_before_;
    std::uint64_t bytes_ = 0;
    std::uint64_t size_;
    int measurements_ = -1;  // of this size; the very first does not count
    double newest_s_ = 0;
    double fastest_s_ = 0;
    double measured_s_ = 0;
    std::uint64_t best_size_ = 0;
    double best_rate_ = 0;
    int misses_ = 0;  // sizes since the best one
    bool done_ = false;
    std::string why_;
};

// The largest micro-batch that a search may try in this run: the target batch, and with local
// updates a divisor of the inner batch.
std::uint64_t micro_batch_max(std::uint64_t target, std::uint64_t inner_batch);

// Does an error of what computes say that memory ran out?
bool says_out_of_memory(const Error& error);

// The whole search on samples that count nowhere (dedloc check). `now` and `bytes` (in use by this
// process; 0: not known) are the machine's; `told` hears of each micro-batch what it took. Errors:
// those of `computing`.
Result<MicroBatchSearch> search_micro_batch(
    Samples& computing,
    const MicroBatchOptions& options,
    const std::function<TimePoint()>& now,
    const std::function<std::uint64_t()>& bytes,
    const std::function<void(std::uint64_t samples, double seconds)>& told = {});

}  // namespace dedloc::train
