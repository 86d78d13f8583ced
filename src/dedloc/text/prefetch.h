// Batches made in the background before they are asked for.
//
// Worker threads make the next batches of the same size in order, at most batches_ahead of them,
// and meanwhile the next window of the stream. Whoever asks for another place or size gets that
// batch made at once, and from there on the batches behind it are made ahead. What comes out is
// what the stream's batch() gives: only the waiting is different. A stream is SampleStream or
// PackedStream.
//
// Memory: batches_ahead batches and the stream's windows. Thread: take() from one thread.
// Errors: those of the stream's batch().

#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "dedloc/text/packed_stream.h"
#include "dedloc/text/sample_stream.h"

namespace dedloc::text {

inline constexpr std::size_t prefetch_threads_max = 64;
inline constexpr std::size_t batches_ahead_max = 4096;

struct PrefetchOptions {
    std::size_t threads = 1;  // 0: everything is made in take()
    std::size_t batches_ahead = 8;
};

template <typename Stream>
class PrefetcherOf {
  public:
    using Options = PrefetchOptions;
    using Batch = typename Stream::Batch;
    PrefetcherOf(std::shared_ptr<const Stream> stream, const Options& options);
    ~PrefetcherOf();  // waits for the batch that is being made
    PrefetcherOf(const PrefetcherOf&) = delete;
    PrefetcherOf& operator=(const PrefetcherOf&) = delete;

    Result<Batch> take(SampleRange range);

    // How many batches were ready, or being made, when they were asked for.
    std::uint64_t hits() const { return hits_; }

  private:
    struct Job {
        SampleRange range;
        bool started = false;
        std::optional<Result<Batch>> result;
    };
    void work(const std::stop_token& stop);
    std::shared_ptr<Job> next_job(std::unique_lock<std::mutex>& lock, const std::stop_token& stop);
    void extend();  // with the lock

    std::shared_ptr<const Stream> stream_;
    Options options_;
    std::uint64_t hits_ = 0;

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<std::shared_ptr<Job>> jobs_;  // ranges one behind the other
    std::optional<SampleRange> next_;        // what the last of jobs_ is followed by
    std::uint64_t prepared_ = 0;             // window after the one that jobs_ have reached
    std::vector<std::jthread> threads_;      // last: they end first
};

using Prefetcher = PrefetcherOf<SampleStream>;

}  // namespace dedloc::text
