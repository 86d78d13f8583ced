// Queue: jobs that wait for the model, which does one at a time, on a thread of its own.
//
//   if (!queue.push(job)) …               // as many wait already: 429
//   queue.forget(job);                    // nobody wants it any more
//
// Limits: `waiting_max` jobs beside the one that runs. Thread: any. The destructor calls end(), and
// returns when the job that runs has ended.

#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace dedloc::api {

class Job {
  public:
    virtual ~Job() = default;
    virtual void run() = 0;     // on the queue's thread
    virtual void cancel() = 0;  // any thread: run() ends soon, or does nothing
};

class Queue {
  public:
    explicit Queue(std::size_t waiting_max);
    ~Queue();
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    bool push(std::shared_ptr<Job> job);  // no: the queue is full, or ends
    void forget(const std::shared_ptr<Job>& job);
    // Cancels all jobs; push() takes no more.
    void end();
    // Estimates after how many seconds, 1 or more, there is room: by how long jobs took so far.
    int seconds_until_room() const;

  private:
    void work();

    const std::size_t waiting_max_;
    mutable std::mutex mutex_;
    std::condition_variable news_;
    std::deque<std::shared_ptr<Job>> waiting_;
    std::shared_ptr<Job> running_;
    double usual_s_ = 1;
    bool ending_ = false;
    std::thread thread_;  // the last member
};

}  // namespace dedloc::api
