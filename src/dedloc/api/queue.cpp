#include "dedloc/api/queue.h"

#include <algorithm>
#include <cmath>

#include "dedloc/web/steady_seconds.h"

namespace dedloc::api {
namespace {

constexpr double newest_share = 0.3;  // weight of the newest job in `usual_s_`
constexpr double room_s_max = 120;

}  // namespace

Queue::Queue(std::size_t waiting_max) : waiting_max_(waiting_max), thread_([this] { work(); }) {}

Queue::~Queue() {
    end();
    thread_.join();
}

bool Queue::push(std::shared_ptr<Job> job) {
    const std::lock_guard lock(mutex_);
    if (ending_ || waiting_.size() >= waiting_max_ + (running_ ? 0 : 1)) return false;
    waiting_.push_back(std::move(job));
    news_.notify_one();
    return true;
}

void Queue::forget(const std::shared_ptr<Job>& job) {
    job->cancel();
    const std::lock_guard lock(mutex_);
    std::erase(waiting_, job);
}

void Queue::end() {
    std::deque<std::shared_ptr<Job>> dropped;
    std::shared_ptr<Job> running;
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
        dropped.swap(waiting_);
        running = running_;
    }
    news_.notify_one();
    for (const auto& job : dropped) job->cancel();
    if (running) running->cancel();
}

int Queue::seconds_until_room() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(std::ceil(std::clamp(usual_s_, 1.0, room_s_max)));
}

void Queue::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        news_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
        if (ending_) return;
        running_ = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        const double begun = web::steady_seconds();
        running_->run();
        const double took = web::steady_seconds() - begun;
        lock.lock();
        usual_s_ += newest_share * (took - usual_s_);
        running_.reset();
    }
}

}  // namespace dedloc::api
