#include "dedloc/tasks/template_end.h"

#include <fmt/format.h>

namespace dedloc::tasks {

std::string with_end(std::string_view settings, const TemplateEnd& end) {
    return fmt::format(R"({}
[averaging]
codec = "{}"
round_deadline_min = "1s"
round_deadline_max = "{}"
quorum_timeout = "{}"
delayed = {}
leave_out_slow = true

[stop]
steps = {}
samples = 0
accuracy = 0.0

[checkpoint]
every = {}

[evaluate]
every = {}
)",
                       settings,
                       end.codec,
                       end.round_deadline_max,
                       end.quorum_timeout,
                       end.delayed,
                       end.steps,
                       end.checkpoint_every,
                       end.evaluate_every);
}

}  // namespace dedloc::tasks
