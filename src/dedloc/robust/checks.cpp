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
        return free[m] && m != target && members[m].speed > 0;
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

// Lays the chances side by side from a random place on, and takes those in which a whole number
// lies.
std::vector<std::uint32_t> draw_targets(Random& random, std::span<const Checkable> members) {
    std::vector<std::uint32_t> targets;
    std::vector<std::uint32_t> drawn;
    for (std::uint32_t m = 0; m < members.size(); ++m) {
        if (!members[m].contributes) continue;
        (members[m].always ? targets : drawn).push_back(m);
    }
    random.shuffle(drawn);
    double at = random.uniform();
    for (const std::uint32_t m : drawn) {
        const double next = at + std::max(members[m].chance, 0.0);
        if (std::floor(next) > std::floor(at)) targets.push_back(m);
        at = next;
    }
    return targets;
}

}  // namespace

void limit_chances(std::span<Checkable> members, double usual) {
    double all = 0;
    double beyond = 0;
    for (const Checkable& member : members) {
        if (!member.contributes || member.always) continue;
        all = all + member.work;
        beyond = beyond + member.work * std::max(0.0, member.chance - usual);
    }
    const double most = std::max(0.0, check_work_most - usual) * all;
    if (beyond <= most) return;
    for (Checkable& member : members)
        member.chance =
            std::min(member.chance, usual) + std::max(0.0, member.chance - usual) * most / beyond;
}

std::vector<CheckAssignment> assign_checks(const Digest& seed, std::span<const Checkable> members) {
    Random random = random_of(seed);
    const std::vector<std::uint32_t> targets = draw_targets(random, members);

    std::vector<CheckAssignment> jobs;
    std::vector<bool> free(members.size(), true);
    const std::vector<bool> anybody(members.size(), true);
    for (const std::uint32_t target : targets) {
        std::optional<std::uint32_t> validator = draw_validator(random, members, free, target);
        if (!validator && members[target].always)
            validator = draw_validator(random, members, anybody, target);
        if (!validator) continue;
        free[*validator] = false;
        jobs.push_back({*validator, target});
    }
    return jobs;
}

}  // namespace dedloc::robust
