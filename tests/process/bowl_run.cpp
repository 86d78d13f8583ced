#include "tests/process/bowl_run.h"

#include <fmt/format.h>

namespace dedloc::lab {

std::string bowl_run_text(const BowlRun& run) {
    return fmt::format(R"(
name = "{}"
[task]
kind = "synthetic"
model = "bowl-{}"
data = "noise-{}ms"
[batch]
target = 32
micro = 2
[schedule]
peak = 0.01
[averaging]
codec = "{}"
round_deadline_min = "1s"
round_deadline_max = "60s"
quorum_timeout = "10s"
[checkpoint]
every = {}
[evaluate]
every = 0
)",
                       run.name,
                       run.elements,
                       run.milliseconds,
                       run.codec,
                       run.checkpoint_every);
}

}  // namespace dedloc::lab
