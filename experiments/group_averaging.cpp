#include "experiments/group_averaging.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "dedloc/base/check.h"
#include "dedloc/base/random.h"

namespace dedloc::lab {
namespace {

constexpr double coarse_variance = 1e-4;
constexpr double fine_variance = 1e-9;

using Numbers = std::vector<double>;
using Group = std::vector<std::size_t>;

double variance(const Numbers& numbers) {
    const auto count = static_cast<double>(numbers.size());
    const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / count;
    double sum = 0;
    for (const double number : numbers) sum += (number - mean) * (number - mean);
    return sum / count;
}

class Collective {
  public:
    Collective(const GroupAveraging& experiment, std::uint64_t seed)
        : experiment_(experiment),
          random_(Random(seed).fork("group averaging")),
          numbers_(experiment.peers),
          cells_(experiment.side * experiment.side),
          present_(experiment.peers) {
        DEDLOC_CHECK(experiment.peers <= cells_.size(), "more peers than cells");
        for (double& number : numbers_) number = random_.normal();
        std::iota(cells_.begin(), cells_.end(), std::size_t{0});
        random_.shuffle(cells_);  // the first of them are the peers' cells
    }

    double variance_now() const { return variance(numbers_); }
    // `round`: 1 and on.
    void next(int round) {
        for (std::size_t i = 0; i < present_.size(); ++i)
            present_[i] = !random_.chance(experiment_.absence);
        switch (experiment_.strategy) {
            case GroupStrategy::all_reduce:
                return all_reduce();
            case GroupStrategy::gossip:
                return mix({0, 1, numbers_.size() - 1});
            case GroupStrategy::sgp:
                return mix(reach(round));
            case GroupStrategy::random:
                return random_groups();
            case GroupStrategy::moshpit:
                return along_axis(round % 2);
        }
    }

  private:
    void average(const Group& group) {
        double sum = 0;
        for (const std::size_t peer : group) sum += numbers_[peer];
        for (const std::size_t peer : group)
            numbers_[peer] = sum / static_cast<double>(group.size());
    }
    Group those_present() const {
        Group group;
        for (std::size_t i = 0; i < present_.size(); ++i)
            if (present_[i]) group.push_back(i);
        return group;
    }
    void all_reduce() {
        const Group group = those_present();
        if (group.size() == numbers_.size()) average(group);
    }
    std::vector<std::size_t> reach(int round) const {
        const auto width = static_cast<int>(std::bit_width(numbers_.size() - 1));
        const int h = round % (width - 1);  // floor(log2(n - 1)) values
        return {0, std::size_t{1} << h, std::size_t{1} << (h + 1)};
    }
    // Each that is present takes the mean of those of its neighbours that are.
    void mix(const std::vector<std::size_t>& distances) {
        const Numbers before = numbers_;
        for (std::size_t i = 0; i < before.size(); ++i) {
            if (!present_[i]) continue;
            double sum = 0;
            double count = 0;
            for (const std::size_t distance : distances) {
                const std::size_t neighbour = (i + distance) % before.size();
                if (!present_[neighbour]) continue;
                sum += before[neighbour];
                ++count;
            }
            numbers_[i] = sum / count;
        }
    }
    void random_groups() {
        Group present = those_present();
        random_.shuffle(present);
        const std::size_t count = std::max<std::size_t>(1, present.size() / experiment_.side);
        std::vector<Group> dealt(count);
        for (std::size_t i = 0; i < present.size(); ++i) dealt[i % count].push_back(present[i]);
        for (const Group& group : dealt) average(group);
    }
    void along_axis(int axis) {
        std::vector<Group> dealt(experiment_.side);
        for (const std::size_t peer : those_present()) {
            const std::size_t cell = cells_[peer];
            dealt[axis == 1 ? cell / experiment_.side : cell % experiment_.side].push_back(peer);
        }
        for (const Group& group : dealt) average(group);
    }

    GroupAveraging experiment_;
    Random random_;
    Numbers numbers_;
    std::vector<std::size_t> cells_;
    std::vector<bool> present_;
};

}  // namespace

std::string_view to_string(GroupStrategy strategy) {
    switch (strategy) {
        case GroupStrategy::all_reduce:
            return "all-reduce";
        case GroupStrategy::gossip:
            return "gossip";
        case GroupStrategy::sgp:
            return "SGP";
        case GroupStrategy::random:
            return "random groups";
        case GroupStrategy::moshpit:
            return "Moshpit";
    }
    return "";
}

RoundsNeeded average_in_groups(const GroupAveraging& experiment, std::uint64_t seed) {
    Collective collective(experiment, seed);
    const auto never = static_cast<double>(experiment.rounds_max);
    RoundsNeeded needed{.coarse = never, .fine = never};
    for (int round = 1; round <= experiment.rounds_max; ++round) {
        collective.next(round);
        const double now = collective.variance_now();
        if (now < coarse_variance) needed.coarse = std::min<double>(needed.coarse, round);
        if (now >= fine_variance) continue;
        needed.fine = round;
        break;
    }
    return needed;
}

RoundsNeeded mean_rounds(const GroupAveraging& experiment, int seeds) {
    RoundsNeeded sum;
    for (int seed = 0; seed < seeds; ++seed) {
        const RoundsNeeded one = average_in_groups(experiment, static_cast<std::uint64_t>(seed));
        sum.coarse += one.coarse;
        sum.fine += one.fine;
    }
    return {.coarse = sum.coarse / seeds, .fine = sum.fine / seeds};
}

}  // namespace dedloc::lab
