// WorkInPlace: Workers of who has no thread to spare, or wants none: work is done where it is asked
// for, before that returns. An audit, which does nothing else meanwhile; tests and fuzz targets.
//
// Thread: any one. Cost: the work's.

#pragma once
#include "dedloc/runtime/workers.h"

namespace dedloc::runtime {

class WorkInPlace final : public Workers {
  public:
    Task<void> run_erased(std::function<void()> work) override {
        work();
        co_return;
    }
    std::size_t threads_count() const override { return 1; }
};

}  // namespace dedloc::runtime
