// NewestState: the state that a trainer computes from. Thread: any.

#pragma once
#include <memory>
#include <mutex>

#include "dedloc/state/snapshot.h"

namespace dedloc::replica {

class NewestState {
  public:
    void set(std::shared_ptr<const state::Snapshot> state) {
        const std::lock_guard lock(mutex_);
        state_ = std::move(state);
    }
    std::shared_ptr<const state::Snapshot> get() const {
        const std::lock_guard lock(mutex_);
        return state_;
    }

  private:
    mutable std::mutex mutex_;
    std::shared_ptr<const state::Snapshot> state_;
};

}  // namespace dedloc::replica
