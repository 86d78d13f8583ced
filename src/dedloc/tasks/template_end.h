// The sections that the run templates of all tasks end with: [averaging], [stop], [checkpoint] and
// [evaluate], with what differs from task to task.

#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace dedloc::tasks {

struct TemplateEnd {
    std::string_view codec = "fp16";
    std::string_view round_deadline_max = "120s";
    std::string_view quorum_timeout = "60s";
    bool delayed = false;
    std::uint64_t steps = 1000;
    std::uint64_t checkpoint_every = 50;
    std::uint64_t evaluate_every = 20;
};

// Returns `settings`, a run file up to [schedule], with those sections.
std::string with_end(std::string_view settings, const TemplateEnd& end);

}  // namespace dedloc::tasks
