#include "dedloc/train/micro_batch.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <utility>

namespace dedloc::train {

namespace {

// Measurements of each size: short ones are measured more often, as they tell less.
constexpr int measurements_min = 2;
constexpr int measurements_wanted = 10;
constexpr double measured_enough_s = 0.1;
constexpr double long_enough_s = 1;
constexpr double gain_wanted = 1.05;  // in samples a second, from each doubling
// A machine that is busy for a moment must not end the search: so many sizes in a row gain nothing,
// and what takes less than this says little.
constexpr int misses_max = 2;
constexpr double long_enough_to_judge_s = 0.05;

}  // namespace

MicroBatchSearch::MicroBatchSearch(MicroBatchOptions options, std::uint64_t bytes)
    : options_(options),
      bytes_before_(bytes),
      size_(std::max<std::uint64_t>(std::min(options.samples_first, options.samples_max), 1)) {}

void MicroBatchSearch::measured(double seconds, std::uint64_t bytes) {
    if (done_) return;
    bytes_ = std::max(bytes_, bytes);
    // A GPU's first micro-batches load its kernels: each takes far less time than the one before.
    const bool warms_up = best_size_ == 0 && seconds < newest_s_ / 2;
    newest_s_ = seconds;
    if (++measurements_ == 0) return;
    fastest_s_ = measurements_ == 1 ? seconds : std::min(fastest_s_, seconds);
    measured_s_ = measurements_ == 1 ? seconds : measured_s_ + seconds;
    const bool enough = measurements_ >= measurements_wanted ||
                        (measurements_ >= measurements_min && measured_s_ >= measured_enough_s);
    if (enough || (seconds >= long_enough_s && !warms_up)) decide();
}

void MicroBatchSearch::decide() {
    const double rate = static_cast<double>(size_) / std::max(fastest_s_, 1e-9);
    double wanted = best_rate_;
    for (int doubling = 0; doubling <= misses_; ++doubling) wanted *= gain_wanted;
    const bool gains = rate >= wanted;
    misses_ = gains ? 0 : misses_ + 1;
    if (gains) {
        best_size_ = size_;
        best_rate_ = rate;
    }
    const std::uint64_t grown = bytes_ > bytes_before_ ? bytes_ - bytes_before_ : 0;
    if (misses_ >= misses_max && fastest_s_ >= long_enough_to_judge_s)
        end({});
    else if (fastest_s_ >= long_enough_s)
        end(fmt::format("they take {:.2g} s", fastest_s_));
    else if (size_ * 2 > options_.samples_max)
        end("twice as many are more than the batch allows");
    else if (size_ * 2 > options_.samples_known && options_.bytes_max > 0 && bytes_before_ > 0 &&
             bytes_ + grown > options_.bytes_max)
        end("twice as many might not fit into memory");
    if (done_) return;
    size_ *= 2;
    measurements_ = 0;
}

void MicroBatchSearch::out_of_memory() {
    if (done_) return;
    if (best_size_ == 0) best_size_ = std::max<std::uint64_t>(size_ / 2, 1);
    misses_ = 0;
    end(fmt::format("{} at a time do not fit into memory", size_));
}

// `why` no larger size was tried.
void MicroBatchSearch::end(std::string why) {
    size_ = best_size_;
    why_ = misses_ > 0 ? "more at a time compute hardly more samples a second" : std::move(why);
    done_ = true;
}

std::uint64_t micro_batch_max(std::uint64_t target, std::uint64_t inner_batch) {
    if (inner_batch == 0) return target;
    const std::uint64_t power_in_it = std::uint64_t{1} << std::countr_zero(inner_batch);
    return std::min(target, power_in_it);
}

bool says_out_of_memory(const Error& error) {
    const std::string text = error.message();
    return text.find("out of memory") != std::string::npos ||
           text.find("can't allocate memory") != std::string::npos ||
           text.find("ALLOC_FAILED") != std::string::npos ||  // of cuBLAS and cuDNN
           text.find("bad_alloc") != std::string::npos;
}

Result<MicroBatchSearch> search_micro_batch(
    Samples& computing,
    const MicroBatchOptions& options,
    const std::function<TimePoint()>& now,
    const std::function<std::uint64_t()>& bytes,
    const std::function<void(std::uint64_t samples, double seconds)>& told) {
    MicroBatchSearch search(options, bytes());
    for (std::uint64_t next = 0; !search.done();) {
        const collab::CounterRange samples{next, next + search.size()};
        next = samples.end;
        const TimePoint begun = now();
        const auto report = computing.accumulate(samples);
        if (report) {
            const double seconds = to_seconds(now() - begun);
            search.measured(seconds, bytes());
            if (told) told(samples.size(), seconds);
        } else {
            if (!says_out_of_memory(report.error()) || samples.size() == 1) return report.error();
            search.out_of_memory();
        }
    }
    return search;
}

}  // namespace dedloc::train
