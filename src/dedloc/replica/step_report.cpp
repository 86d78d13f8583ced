#include "dedloc/replica/step_report.h"

#include <algorithm>

namespace dedloc::replica {

void StepReport::applied(const consensus::Instance& step, TimePoint now, events::StepMade& made) {
    made.seconds = to_seconds(now - started_);
    if (round_ && round_->step == step) {
        const TimePoint planned = std::max(round_->planned, started_);
        const TimePoint decided = std::max(round_->decided, planned);
        // A plan that counts on what we said before may come while we still compute.
        const TimePoint handed_in =
            std::clamp(round_->handed_in.value_or(started_), started_, planned);
        made.computing_s = to_seconds(handed_in - started_);
        made.waiting_s = to_seconds(planned - handed_in);
        made.averaging_s = to_seconds(decided - planned);
        made.applying_s = to_seconds(now - decided);
    }
    started_ = now;
}

}  // namespace dedloc::replica
