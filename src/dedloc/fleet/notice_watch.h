// NoticeWatch: asks every few seconds whether this machine will be taken away, until it is said.
//
// Thread: a thread of its own asks; notice() and take_problem() any. The destructor cuts off a
// request that is under way and waits for its end: HttpFetch's time to connect at most.

#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "dedloc/fleet/notice_source.h"

namespace dedloc::fleet {

// Notices come half a minute before the end, on the hastiest cloud.
inline constexpr std::chrono::milliseconds notice_interval{2000};
// After so many polls in a row without an answer the problem is told, once.
inline constexpr int notice_silences = 3;

class NoticeWatch {
  public:
    explicit NoticeWatch(const NoticePlace& place,
                         std::chrono::milliseconds interval = notice_interval);
    ~NoticeWatch();
    NoticeWatch(const NoticeWatch&) = delete;
    NoticeWatch& operator=(const NoticeWatch&) = delete;

    // The notice; empty: none yet.
    std::string notice() const;
    // Why nothing can be heard, once, until something is; empty: no news.
    std::string take_problem();

  private:
    void look_again_and_again();
    bool wait();  // false: it ends

    HttpFetch fetch_;
    std::unique_ptr<NoticeSource> source_;
    std::chrono::milliseconds interval_;
    mutable std::mutex mutex_;
    std::condition_variable ends_;
    bool ending_ = false;
    std::string notice_;
    std::string problem_;
    std::jthread thread_;  // the last member: it uses the others
};

}  // namespace dedloc::fleet
