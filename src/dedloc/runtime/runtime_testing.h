// What tests on a real loop wait with. Of the tests only.

#pragma once
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/suspend.h"

namespace dedloc::runtime {

// Always passes through the loop, however late this machine is: what was posted before has run.
inline Task<void> a_moment(Clock& clock) {
    std::shared_ptr<Parked> sleeper;
    const TimePoint soon = clock.now() + 2ms;
    clock.call_at(soon, [&sleeper] { sleeper->resume(); });
    auto start = [&sleeper](std::shared_ptr<Parked> parked) { sleeper = std::move(parked); };
    co_await park(start);
}

}  // namespace dedloc::runtime
