// A pool of threads at low priority; results come home through the loop.

#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "dedloc/base/check.h"
#include "dedloc/runtime/real.h"

namespace dedloc::runtime {

namespace {

constexpr int nice_of_compute = 10;
// Workers are waited for by a whole round: before gradients, and not starved by what else runs on
// the machine (at 10, with 14 busy strangers on each core, a millisecond's work took a second).
constexpr int nice_of_workers = 2;
constexpr int nice_of_network = -10;  // only where privileges allow it
// Beside the threads that compute, as many as usually wait for the disk at once: a vote and the
// certificate before it. Nobody's arithmetic waits for a disk.
constexpr std::size_t threads_for_disk = 2;

// On Linux the nice value belongs to the thread, not to the process.
id_t thread_id() { return static_cast<id_t>(syscall(SYS_gettid)); }

// One parallel_for: its tasks are taken one by one. Outlives the call, for helpers that come late
// and find nothing to do.
class SharedTasks {
  public:
    SharedTasks(std::size_t count, const std::function<void(std::size_t)>& task)
        : count_(count), task_(task) {}

    void take_all() {
        std::size_t done = 0;
        for (std::size_t i = next_++; i < count_; i = next_++) {
            task_(i);
            ++done;
        }
        if (done > 0 && (done_ += done) == count_) done_.notify_all();
    }
    void wait() const {
        for (std::size_t done = done_; done < count_; done = done_) done_.wait(done);
    }

  private:
    std::size_t count_;
    const std::function<void(std::size_t)>& task_;  // touched only while tasks are left: it lives
    std::atomic<std::size_t> next_ = 0;
    std::atomic<std::size_t> done_ = 0;
};

class RealWorkers final : public Workers {
  public:
    explicit RealWorkers(std::size_t threads_count)
        : threads_count_(std::max<std::size_t>(threads_count, 1)) {
        for (std::size_t i = 0; i < threads_count_ + threads_for_disk; ++i)
            threads_.emplace_back([this] { serve(); });
    }

    // Work that was accepted is still done: somebody's Task waits for it.
    ~RealWorkers() override {
        {
            const std::lock_guard lock(mutex_);
            closing_ = true;
        }
        wake_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    Task<void> run_erased(std::function<void()> work) override {
        auto job = std::make_shared<std::function<void()>>(std::move(work));
        return asio::async_initiate<const asio::use_awaitable_t<>, void()>(
            Initiation{this, std::move(job)}, asio::use_awaitable);
    }

    void parallel_for(std::size_t tasks_count,
                      const std::function<void(std::size_t)>& task) override {
        auto tasks = std::make_shared<SharedTasks>(tasks_count, task);
        const std::size_t helpers = std::min(threads_count_, tasks_count);
        for (std::size_t i = 1; i < helpers; ++i) (void)offer([tasks] { tasks->take_all(); });
        tasks->take_all();
        tasks->wait();
    }

    std::size_t threads_count() const override { return threads_count_; }

  private:
    // Leaves the cancellation slot alone: the Task ends only after the work.
    struct Initiation {
        RealWorkers* pool;
        std::shared_ptr<std::function<void()>> job;

        template <typename Handler>
        void operator()(Handler&& handler) {
            auto shared = std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler));
            auto home = asio::get_associated_executor(*shared);
            pool->enqueue([job = std::move(job), shared = std::move(shared), home]() mutable {
                (*job)();
                // The work's own things die here, and the last reference to the coroutine travels
                // home: nothing of the network thread is destroyed by this one.
                job.reset();
                asio::post(home, [shared = std::move(shared)]() mutable {
                    auto resume = std::move(*shared);
                    shared.reset();
                    resume();
                });
            });
        }
    };

    void enqueue(std::function<void()> job) {
        const bool taken = offer(std::move(job));
        DEDLOC_CHECK(taken, "work was given to Workers that are being destroyed");
    }

    // Whether it was taken: not while we are being destroyed.
    bool offer(std::function<void()> job) {
        {
            const std::lock_guard lock(mutex_);
            if (closing_) return false;
            jobs_.push_back(std::move(job));
        }
        wake_.notify_one();
        return true;
    }

    void serve() {
        (void)setpriority(PRIO_PROCESS, thread_id(), nice_of_workers);
        for (;;) {
            std::function<void()> job;
            {
                std::unique_lock lock(mutex_);
                wake_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
                if (jobs_.empty()) return;
                job = std::move(jobs_.front());
                jobs_.pop_front();
            }
            job();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::function<void()>> jobs_;
    bool closing_ = false;
    std::size_t threads_count_;
    std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Workers> real_workers(Executor, std::size_t threads_count) {
    return std::make_unique<RealWorkers>(threads_count);
}

void raise_thread_priority() {
    // Refused without CAP_SYS_NICE, and that is fine: the others are lowered instead.
    (void)setpriority(PRIO_PROCESS, thread_id(), nice_of_network);
}

void lower_thread_priority() {
    sched_param none{};
    // Both only improve the network's latency, so a refusal changes nothing else.
    (void)sched_setscheduler(0, SCHED_BATCH, &none);
    (void)setpriority(PRIO_PROCESS, thread_id(), nice_of_compute);
}

}  // namespace dedloc::runtime
