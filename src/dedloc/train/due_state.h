// DueState: the state of the step at which a checkpoint is due, exactly.
//
// A saver looks at the run only now and then, and steps may be quicker: with every = 20 it would
// save steps 80, 101 and 120. This sink sees each step as it is made and holds the newest state
// that is due until it is taken.
//
// Thread: record() the network thread, begin() and take() any.

#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "dedloc/events/events.h"
#include "dedloc/state/snapshot.h"

namespace dedloc::train {

class DueState final : public events::EventSink {
  public:
    using Newest = std::function<std::shared_ptr<const state::Snapshot>()>;
    // `every`: global steps; 0: none is due.
    explicit DueState(std::uint64_t every) : every_(every) {}

    // From now on; `newest` is asked on the network thread.
    void begin(Newest newest) {
        const std::lock_guard lock(mutex_);
        newest_ = std::move(newest);
    }
    void record(const events::Event& event) override {
        const auto* made = event.as<events::StepMade>();
        if (made == nullptr || every_ == 0 || made->step % every_ != 0) return;
        const std::lock_guard lock(mutex_);
        if (!newest_) return;
        auto state = newest_();
        if (state && state->step() == made->step) due_ = std::move(state);
    }
    // Null: none has become due since.
    std::shared_ptr<const state::Snapshot> take() {
        const std::lock_guard lock(mutex_);
        return std::exchange(due_, nullptr);
    }

  private:
    std::uint64_t every_;
    std::mutex mutex_;
    Newest newest_;
    std::shared_ptr<const state::Snapshot> due_;
};

}  // namespace dedloc::train
