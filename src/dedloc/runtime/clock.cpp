#include "dedloc/runtime/clock.h"

#include "dedloc/runtime/suspend.h"

namespace dedloc::runtime {

Task<void> Clock::sleep_until(TimePoint deadline) {
    if (now() >= deadline) co_return;
    std::shared_ptr<Parked> sleeper;
    auto wake = [&sleeper] { sleeper->resume(); };
    const TimerId timer = call_at(deadline, wake);
    const TimerGuard guard(*this, timer);
    auto start = [&sleeper](std::shared_ptr<Parked> parked) { sleeper = std::move(parked); };
    co_await park(start);
}

}  // namespace dedloc::runtime
