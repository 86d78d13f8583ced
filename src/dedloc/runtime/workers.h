// Heavy work off the network thread: functions of owned buffers that come back by co_await.
//
// In the simulator the work runs inline at no virtual cost (or a stated one), so that traces
// repeat.

#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

class Workers {
  public:
    virtual ~Workers() = default;

    // Runs `work` on some worker thread; resumes on the caller's executor. `work` must own what it
    // touches (move buffers in, return buffers), must not throw, and is not interrupted by
    // cancellation: the awaiting Task ends only after it.
    virtual Task<void> run_erased(std::function<void()> work) = 0;

    template <typename Work>
    Task<std::invoke_result_t<Work&>> run(Work work) {
        using R = std::invoke_result_t<Work&>;
        auto shared = std::make_shared<Work>(std::move(work));
        if constexpr (std::is_void_v<R>) {
            std::function<void()> erased = [shared] { (*shared)(); };
            co_await run_erased(std::move(erased));
        } else {
            auto result = std::make_shared<std::optional<R>>();
            std::function<void()> erased = [shared, result] { result->emplace((*shared)()); };
            co_await run_erased(std::move(erased));
            co_return std::move(**result);
        }
    }

    // Within `work` above: runs task(0) … task(tasks_count - 1) on this thread and on whichever
    // others are idle, in any order, and returns when all are done. Nobody waits for a thread that
    // is busy elsewhere. The tasks touch nothing in common. Here: in order, on this thread alone.
    virtual void parallel_for(std::size_t tasks_count,
                              const std::function<void(std::size_t)>& task) {
        for (std::size_t i = 0; i < tasks_count; ++i) task(i);
    }

    // Into how many pieces a computation is worth cutting.
    virtual std::size_t threads_count() const = 0;
};

}  // namespace dedloc::runtime
