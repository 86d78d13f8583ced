#include "dedloc/collab/pace_watch.h"

#include <algorithm>
#include <vector>

namespace dedloc::collab {
namespace {

constexpr double megabits_of_bytes = 8e-6;

}  // namespace

// The median of those who have a state counts: one alone may lie about its step.
std::optional<Error> PaceWatch::observe(std::uint64_t own, double average_bytes) {
    std::vector<std::uint64_t> steps;
    for (const membership::KnownPeer* peer : context_.membership.live())
        if (peer->status.has_state()) steps.push_back(peer->status.step);
    if (steps.empty()) return std::nullopt;
    std::ranges::sort(steps);
    const auto slow = pace_.observe(own,
                                    steps[(steps.size() - 1) / 2],
                                    context_.host.traffic().received_bytes,
                                    average_bytes,
                                    context_.node.clock.now());
    if (!slow) return std::nullopt;
    std::string text = fmt::format(
        "this peer cannot follow: the others make a step in {:.2g} s, which takes a line of "
        "{:.3g} Mb/s down, and as much up for what it brings; {:.2g} Mb/s came. Grant it more "
        "(--max-down, --max-up), take another line, or help with `dedloc assist`, which needs no "
        "state",
        slow->step_s,
        slow->needed_bytes_per_s * megabits_of_bytes,
        slow->came_bytes_per_s * megabits_of_bytes);
    std::optional<Error> hopeless;
    if (slow->hopeless) hopeless = make_error(ErrorKind::cannot_compute, "{}", text);
    context_.teller.tell(events::CannotFollow{slow->needed_bytes_per_s, slow->came_bytes_per_s},
                         {},
                         std::move(text));
    return hopeless;
}

}  // namespace dedloc::collab
