// ReadAhead: samples made on worker threads before they are asked for.
//
// make(number) is a pure function, so it does not matter on which thread or when it ran: what
// take(n) returns is make(n). The workers go on in order behind what was taken last; whoever jumps
// elsewhere gets that sample made at once, and those behind it are made ahead from there.
//
// Memory: `ahead` samples. Thread: take() from one thread; make from all at the same time.

#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace dedloc::images {

inline constexpr std::size_t read_ahead_threads_max = 64;
inline constexpr std::size_t read_ahead_samples_max = 4096;

template <typename Sample>
class ReadAhead {
  public:
    using Make = std::function<Sample(std::uint64_t number)>;

    // No threads: everything is made in take().
    ReadAhead(Make make, std::size_t threads, std::size_t ahead)
        : make_(std::move(make)),
          ahead_(std::clamp<std::size_t>(ahead, 1, read_ahead_samples_max)) {
        for (std::size_t i = 0; i < std::min(threads, read_ahead_threads_max); ++i)
            threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
    ~ReadAhead() {
        for (std::jthread& thread : threads_) thread.request_stop();
    }
    ReadAhead(const ReadAhead&) = delete;
    ReadAhead& operator=(const ReadAhead&) = delete;

    Sample take(std::uint64_t number) {
        if (threads_.empty()) return make_(number);
        std::unique_lock lock(mutex_);
        wanted_ = number;
        // A sample that lies behind, or too far ahead, was made for nothing.
        std::erase_if(samples_, [&](const auto& item) { return !is_wanted(item.first); });
        changed_.notify_all();
        const auto found = samples_.find(number);
        if (found == samples_.end()) {
            samples_.emplace(number, std::nullopt);
            lock.unlock();
            Sample made = make_(number);
            lock.lock();
            samples_.erase(number);
            return made;
        }
        changed_.wait(lock, [&] { return samples_.at(number).has_value(); });
        Sample sample = std::move(*samples_.at(number));
        samples_.erase(number);
        ++hits_;
        return sample;
    }

    // How many samples were ready, or being made, when they were asked for.
    std::uint64_t hits() const { return hits_; }

  private:
    bool is_wanted(std::uint64_t number) const {
        return wanted_ && number >= *wanted_ && number - *wanted_ <= ahead_;
    }

    // The next sample that nobody makes.
    std::optional<std::uint64_t> next() const {
        if (!wanted_) return {};
        for (std::uint64_t i = 1; i <= ahead_; ++i)
            if (!samples_.contains(*wanted_ + i)) return *wanted_ + i;
        return {};
    }

    void work(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (changed_.wait(lock, stop, [&] { return next().has_value(); })) {
            const std::uint64_t number = *next();
            samples_.emplace(number, std::nullopt);
            lock.unlock();
            Sample made = make_(number);
            lock.lock();
            const auto place = samples_.find(number);
            if (place != samples_.end()) place->second = std::move(made);
            changed_.notify_all();
        }
    }

    Make make_;
    std::size_t ahead_;
    std::uint64_t hits_ = 0;

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::optional<std::uint64_t> wanted_;                     // taken last
    std::map<std::uint64_t, std::optional<Sample>> samples_;  // empty: it is being made
    std::vector<std::jthread> threads_;                       // last: they end first
};

}  // namespace dedloc::images
