// The real world: one thread that runs an event loop, TCP, files, a pool of worker threads.

#pragma once
#include <functional>
#include <memory>
#include <string>

#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/disk.h"
#include "dedloc/runtime/network.h"
#include "dedloc/runtime/task.h"
#include "dedloc/runtime/workers.h"

namespace dedloc::runtime {

// The event loop of the network thread. Construct, spawn, run() in the thread of your choice.
class Loop {
  public:
    Loop();
    ~Loop();
    Executor executor();
    void run();   // until stop(), or until nothing is left to do when keep_alive is false
    void stop();  // any thread
    void keep_alive(bool keep);             // default true
    void post(std::function<void()> work);  // any thread; runs on the loop
    // Runs a task to its end on this loop, driving the loop from the calling thread (tests, small
    // commands). Rethrows its exception.
    void run_task(Task<void> task);

    struct State;

  private:
    std::unique_ptr<State> state_;
};

std::unique_ptr<Clock> real_clock(Executor executor);
// `congestion_control`: of all its TCP connections, by the kernel's name (cubic, bbr); empty: what
// the system is set to, and reno between programs of one machine. What
// may_use_congestion_control() refuses is ignored.
std::unique_ptr<Network> real_network(Executor executor, std::string congestion_control = {});
// Errors: bad_input, with the names that this process may use.
Ok may_use_congestion_control(const std::string& name);
// `directory` is made if it is missing. Errors: local_fault.
Result<std::unique_ptr<Disk>> real_disk(const std::string& directory);
// Worker threads run at a lower priority than the network thread where the system allows it, so
// that the network stays responsive while every core computes. `threads_count` of them compute at
// once (threads_count()); a few more exist, so that work that waits for the disk holds up nobody.
std::unique_ptr<Workers> real_workers(Executor home, std::size_t threads_count);
// Gives the calling thread the best scheduling priority it may have without privileges; call it in
// the network thread. Compute threads call lower_thread_priority().
void raise_thread_priority();
void lower_thread_priority();

// Calls `handler(count)` on the loop for the first, second… SIGINT or SIGTERM.
class SignalWatcher {
  public:
    SignalWatcher(Executor executor, std::function<void(int count)> handler);
    ~SignalWatcher();

  private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace dedloc::runtime
