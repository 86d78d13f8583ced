#include "dedloc/runtime/event.h"

#include <vector>

#include "dedloc/runtime/suspend.h"

namespace dedloc::runtime {

struct Event::State {
    void add(std::shared_ptr<Parked> waiter) {
        // Waits that were cancelled leave done entries behind; sweep when they may be half.
        if (waiters.size() >= sweep_at) {
            std::erase_if(waiters, [](const auto& old) { return old->done(); });
            sweep_at = 2 * waiters.size() + 8;
        }
        waiters.push_back(std::move(waiter));
    }

    void wake_all() {
        // resume() only posts, so nobody can add a waiter in between.
        for (const auto& waiter : waiters) waiter->resume();
        waiters.clear();
    }

    bool set = false;
    std::vector<std::shared_ptr<Parked>> waiters;
    std::size_t sweep_at = 8;
};

Event::Event(Executor) : state_(std::make_shared<State>()) {}
Event::~Event() = default;

void Event::set() {
    state_->set = true;
    state_->wake_all();
}
void Event::reset() { state_->set = false; }
bool Event::is_set() const { return state_->set; }
void Event::pulse() { state_->wake_all(); }

Task<void> Event::wait() {
    auto state = state_;  // the Event may be destroyed while we wait
    if (state->set) co_return;
    auto start = [state](std::shared_ptr<Parked> parked) { state->add(std::move(parked)); };
    co_await park(std::move(start));
}

Task<bool> Event::wait_until(Clock& clock, TimePoint deadline) {
    auto state = state_;
    if (state->set) co_return true;
    if (clock.now() >= deadline) co_return false;
    bool expired = false;
    std::shared_ptr<Parked> waiter;
    auto wake = [&expired, &waiter] {
        expired = !waiter->done();
        waiter->resume();
    };
    const TimerId timer = clock.call_at(deadline, wake);
    const TimerGuard guard(clock, timer);
    auto start = [&state, &waiter](std::shared_ptr<Parked> parked) {
        waiter = parked;
        state->add(std::move(parked));
    };
    co_await park(start);
    co_return !expired;
}

}  // namespace dedloc::runtime
