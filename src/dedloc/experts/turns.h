// Turns: something that is done by one at a time, as memory holds no two.
//
//   const auto turn = co_await turns.acquire(clock, deadline);
//   if (!turn) ...   // the deadline came first
//
// Thread: one executor. Lifetime: the Turns outlives every Turn. Cancel: leaves nothing behind.

#pragma once
#include <optional>

#include "dedloc/runtime/event.h"

namespace dedloc::experts {

class Turns {
  public:
    class Turn {
      public:
        explicit Turn(Turns& of) : of_(&of) {}
        Turn(Turn&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
        Turn& operator=(Turn&&) = delete;
        ~Turn() {
            if (!of_) return;
            of_->taken_ = false;
            of_->free_.pulse();
        }

      private:
        Turns* of_;
    };

    explicit Turns(runtime::Executor executor) : free_(executor) {}

    Task<std::optional<Turn>> acquire(runtime::Clock& clock, TimePoint deadline) {
        while (taken_) {
            const bool in_time = co_await free_.wait_until(clock, deadline);
            if (!in_time) co_return std::nullopt;
        }
        taken_ = true;
        co_return std::optional<Turn>(std::in_place, *this);
    }

  private:
    bool taken_ = false;
    runtime::Event free_;
};

}  // namespace dedloc::experts
