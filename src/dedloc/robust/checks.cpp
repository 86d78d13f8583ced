#include "dedloc/robust/checks.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "dedloc/base/random.h"

namespace dedloc::robust {
namespace {

Random random_of(const Digest& seed) {
    std::uint64_t key = 0;
    for (const std::uint8_t byte : seed.view()) key = base::mix64(key ^ byte);
    return Random(key);
}

// In proportion to speed, of those with `free`; nothing: nobody can.
std::optional<std::uint32_t> draw_validator(Random& random,
                                            std::span<const Checkable> members,
                                            const std::vector<bool>& free,
                                            std::uint32_t target) {
    const auto may = [&](std::uint32_t m) {
        return free[m] && m != target && !members[m].always && members[m].speed > 0;
    };
    double all = 0;
    for (std::uint32_t m = 0; m < members.size(); ++m)
        if (may(m)) all += members[m].speed;
    double at = random.uniform() * all;
    std::optional<std::uint32_t> last;
    for (std::uint32_t m = 0; m < members.size(); ++m) {
        if (!may(m)) continue;
        last = m;
        at -= members[m].speed;
        if (at < 0) break;
    }
    return last;
}

}  // namespace

std::vector<CheckJob> assign_checks(const Digest& seed,
                                    std::span<const Checkable> members,
                                    double fraction) {
    Random random = random_of(seed);
    std::vector<std::uint32_t> targets;
    std::vector<std::uint32_t> drawn;
    for (std::uint32_t m = 0; m < members.size(); ++m) {
        if (!members[m].contributes) continue;
        (members[m].always ? targets : drawn).push_back(m);
    }
    random.shuffle(drawn);
    const double expected = fraction * static_cast<double>(drawn.size());
    auto count = static_cast<std::size_t>(expected);
    if (random.chance(expected - std::floor(expected))) ++count;
    drawn.resize(std::min(count, drawn.size()));
    targets.insert(targets.end(), drawn.begin(), drawn.end());

    std::vector<CheckJob> jobs;
    std::vector<bool> free(members.size(), true);
    const std::vector<bool> anybody(members.size(), true);
    for (const std::uint32_t target : targets) {
        std::optional<std::uint32_t> validator = draw_validator(random, members, free, target);
        if (!validator) validator = draw_validator(random, members, anybody, target);
        if (!validator) continue;
        free[*validator] = false;
        jobs.push_back({*validator, target});
    }
    return jobs;
}

}  // namespace dedloc::robust
