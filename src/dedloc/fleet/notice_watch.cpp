#include "dedloc/fleet/notice_watch.h"

#include <utility>

namespace dedloc::fleet {

NoticeWatch::NoticeWatch(const NoticePlace& place, std::chrono::milliseconds interval)
    : source_(make_notice_source(
          place, [this](const HttpRequest& request) { return fetch_.fetch(request); })),
      interval_(interval),
      thread_([this] { look_again_and_again(); }) {}

NoticeWatch::~NoticeWatch() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    ends_.notify_all();
    fetch_.stop();
}

std::string NoticeWatch::notice() const {
    const std::lock_guard lock(mutex_);
    return notice_;
}

std::string NoticeWatch::take_problem() {
    const std::lock_guard lock(mutex_);
    return std::exchange(problem_, {});
}

bool NoticeWatch::wait() {
    std::unique_lock lock(mutex_);
    return !ends_.wait_for(lock, interval_, [this] { return ending_; });
}

void NoticeWatch::look_again_and_again() {
    int silences = 0;
    do {
        const auto seen = source_->poll();
        const std::lock_guard lock(mutex_);
        if (ending_) return;
        if (!seen) {
            if (++silences == notice_silences) problem_ = seen.error().message();
            continue;
        }
        silences = 0;
        if (*seen) {
            notice_ = **seen;
            return;
        }
    } while (wait());
}

}  // namespace dedloc::fleet
