#include "dedloc/peer/task_progress.h"

#include <chrono>
#include <cstdio>
#include <memory>

#include "dedloc/peer/say.h"

namespace dedloc::peer {
namespace {

constexpr auto said_every = std::chrono::seconds(3);

}  // namespace

std::function<void(std::string_view, std::size_t, std::size_t)> task_progress(bool quiet) {
    if (quiet) return {};
    using Clock = std::chrono::steady_clock;
    const auto said = std::make_shared<Clock::time_point>(Clock::now());
    return [said](std::string_view what, std::size_t done, std::size_t all) {
        if (Clock::now() - *said < said_every) return;
        *said = Clock::now();
        const double share = all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all);
        say(stderr, "{} (once): {} of {} ({:.0f} %) …\n", what, done, all, 100 * share);
    };
}

}  // namespace dedloc::peer
