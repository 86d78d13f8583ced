// StepReport: when this peer computed, waited, averaged and applied a step, for the event that
// tells of it. The four times together are all of it.
//
// Thread: the network thread. Pure.

#pragma once
#include <optional>

#include "dedloc/base/time.h"
#include "dedloc/consensus/messages.h"
#include "dedloc/events/events.h"

namespace dedloc::replica {

class StepReport {
  public:
    // The state that the open step begins at is there.
    void begin(TimePoint now) { started_ = now; }
    // A certificate has come.
    void decided(TimePoint now) { decided_at_ = now; }
    TimePoint decided_at() const { return decided_at_; }
    // The plan of the commit that has just been decided had come at `planned`. `handed_in`: when we
    // handed in fresh samples; nothing: none were computed.
    void planned(const consensus::Instance& step,
                 TimePoint planned,
                 std::optional<TimePoint> handed_in) {
        round_ = Round{step, handed_in, planned, decided_at_};
    }
    // Another state has taken the place of ours.
    void begin_anew(TimePoint now) {
        started_ = now;
        round_.reset();
    }
    // `step` was applied: fills in where its time went. Nothing where its plan did not come to us,
    // as when we catch up.
    void applied(const consensus::Instance& step, TimePoint now, events::StepMade& made);

  private:
    struct Round {
        consensus::Instance step;
        std::optional<TimePoint> handed_in;
        TimePoint planned;
        TimePoint decided;
    };

    TimePoint decided_at_;        // the newest certificate came
    TimePoint started_;           // the state that the open step begins at was there
    std::optional<Round> round_;  // of the newest commit whose plan has come to us
};

}  // namespace dedloc::replica
