#include "dedloc/text/prefetch.h"

#include <algorithm>

namespace dedloc::text {

template <typename Stream>
PrefetcherOf<Stream>::PrefetcherOf(std::shared_ptr<const Stream> stream, const Options& options)
    : stream_(std::move(stream)), options_(options) {
    options_.batches_ahead = std::clamp<std::size_t>(options_.batches_ahead, 1, batches_ahead_max);
    for (std::size_t i = 0; i < std::min(options_.threads, prefetch_threads_max); ++i)
        threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

template <typename Stream>
PrefetcherOf<Stream>::~PrefetcherOf() {
    for (std::jthread& thread : threads_) thread.request_stop();
}

template <typename Stream>
void PrefetcherOf<Stream>::extend() {
    while (next_ && jobs_.size() < options_.batches_ahead) {
        auto job = std::make_shared<Job>();
        job->range = *next_;
        jobs_.push_back(std::move(job));
        next_ = SampleRange{next_->end, next_->end + next_->size()};
    }
}

// Waits for something to make; nothing when it is time to stop.
template <typename Stream>
std::shared_ptr<typename PrefetcherOf<Stream>::Job> PrefetcherOf<Stream>::next_job(
    std::unique_lock<std::mutex>& lock, const std::stop_token& stop) {
    std::shared_ptr<Job> found;
    const auto is_there = [&] {
        const auto open =
            std::find_if(jobs_.begin(), jobs_.end(), [](const auto& job) { return !job->started; });
        if (open != jobs_.end()) {
            found = *open;
            return true;
        }
        // All batches are made or being made: time for the next window.
        return next_ && next_->begin / stream_->window_samples() + 1 != prepared_;
    };
    while (changed_.wait(lock, stop, is_there)) {
        if (found) return found;
        const std::uint64_t window = next_->begin / stream_->window_samples() + 1;
        prepared_ = window;
        lock.unlock();
        // An error comes again with the batch that needs the window.
        const Ok ignored = stream_->prepare(window * stream_->window_samples());
        static_cast<void>(ignored);
        lock.lock();
    }
    return nullptr;
}

template <typename Stream>
void PrefetcherOf<Stream>::work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (const auto job = next_job(lock, stop)) {
        job->started = true;
        lock.unlock();
        auto result = stream_->batch(job->range);
        lock.lock();
        job->result = std::move(result);
        changed_.notify_all();
    }
}

template <typename Stream>
Result<typename Stream::Batch> PrefetcherOf<Stream>::take(SampleRange range) {
    std::unique_lock lock(mutex_);
    if (jobs_.empty() || !(jobs_.front()->range == range)) {
        jobs_.clear();
        next_ = SampleRange{range.end, range.end + range.size()};
        if (!threads_.empty() && range.size() > 0) extend();
        changed_.notify_all();
        lock.unlock();
        return stream_->batch(range);
    }
    ++hits_;
    const std::shared_ptr<Job> job = jobs_.front();
    jobs_.pop_front();
    extend();
    changed_.notify_all();
    if (!job->started) {  // no worker has come to it yet
        job->started = true;
        lock.unlock();
        return stream_->batch(range);
    }
    changed_.wait(lock, [&] { return job->result.has_value(); });
    return *std::move(job->result);
}

template class PrefetcherOf<SampleStream>;
template class PrefetcherOf<PackedStream>;

}  // namespace dedloc::text
