#include "experiments/journey_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dedloc/base/random.h"

namespace dedloc::lab {
namespace {

constexpr double rest_hours = 0.5;  // between two sessions of a device
constexpr int places_tried = 10'000;

double quantile(std::size_t i, std::size_t count) {
    return (static_cast<double>(i) + 0.5) / static_cast<double>(count);
}

// Shares of the people, whose mean is `ratio` times their median.
std::vector<double> shares(double ratio) {
    const auto with = [](double spread) {
        std::vector<double> values;
        for (std::size_t i = 0; i < journey_people; ++i) {
            const double p = quantile(i, journey_people);
            values.push_back(std::pow(p / (1 - p), spread));
        }
        return values;
    };
    double low = 0;
    double high = 1;
    for (int i = 0; i < 60; ++i) {
        const double middle = (low + high) / 2;
        const std::vector<double> values = with(middle);
        const double mean = std::accumulate(values.begin(), values.end(), 0.0) /
                            static_cast<double>(journey_people);
        (mean < ratio ? low : high) = middle;  // the median is 1
    }
    return with(low);
}

// Exponential, cut at the longest, with the mean that was published; longest first.
std::vector<double> session_lengths() {
    std::vector<double> lengths(journey_sessions);
    double mean = session_mean_hours;
    for (int i = 0; i < 60; ++i) {
        double sum = 0;
        for (std::size_t k = 0; k < lengths.size(); ++k) {
            const double drawn = -mean * std::log(quantile(k, lengths.size()));
            lengths[k] = std::clamp(drawn, 0.2, session_longest_hours);
            sum += lengths[k];
        }
        mean *= session_mean_hours * static_cast<double>(lengths.size()) / sum;
    }
    lengths.front() = session_longest_hours;
    return lengths;
}

// Each session to whom the most is missing of.
std::vector<std::vector<double>> sessions_of_people() {
    const std::vector<double> lengths = session_lengths();
    const double hours = std::accumulate(lengths.begin(), lengths.end(), 0.0);
    std::vector<double> missing =
        shares(hours / static_cast<double>(journey_people) / median_hours);
    const double sum = std::accumulate(missing.begin(), missing.end(), 0.0);
    for (double& share : missing) share *= hours / sum;
    std::vector<std::vector<double>> sessions(journey_people);
    for (const double length : lengths) {
        const auto person = std::ranges::max_element(missing) - missing.begin();
        missing[static_cast<std::size_t>(person)] -= length;
        sessions[static_cast<std::size_t>(person)].push_back(length);
    }
    return sessions;
}

// At least one each; the rest goes to whom most sessions share one.
std::vector<std::size_t> devices_of_people(const std::vector<std::vector<double>>& sessions) {
    std::vector<std::size_t> devices(journey_people, 1);
    for (std::size_t rest = journey_devices - journey_people; rest > 0; --rest) {
        std::size_t best = 0;
        const auto load = [&](std::size_t person) {
            return static_cast<double>(sessions[person].size()) /
                   static_cast<double>(devices[person]);
        };
        for (std::size_t person = 1; person < journey_people; ++person)
            if (load(person) > load(best)) best = person;
        ++devices[best];
    }
    return devices;
}

bool is_free(const std::vector<JourneySession>& sessions,
             std::size_t device,
             double begin,
             double end) {
    return std::ranges::none_of(sessions, [&](const JourneySession& other) {
        return other.device == device && begin < other.end + rest_hours &&
               other.begin < end + rest_hours;
    });
}

}  // namespace

JourneyPlan plan_journey(std::uint64_t seed) {
    Random random(seed);
    JourneyPlan plan;
    const auto sessions = sessions_of_people();
    const auto devices = devices_of_people(sessions);
    for (std::size_t person = 0; person < journey_people; ++person) {
        const std::size_t first = plan.person_of.size();
        plan.person_of.insert(plan.person_of.end(), devices[person], person);
        for (std::size_t i = 0; i < sessions[person].size(); ++i) {
            const double length = sessions[person][i];
            // Every device is used; the longest sessions find their places first.
            const std::size_t turn = first + i % devices[person];
            for (int tries = 0; tries < places_tried; ++tries) {
                const double begin = random.uniform() * (journey_hours - length);
                if (!is_free(plan.sessions, turn, begin, begin + length)) continue;
                plan.sessions.push_back({turn, begin, begin + length});
                break;
            }
        }
    }
    std::ranges::sort(plan.sessions, {}, &JourneySession::begin);
    return plan;
}

}  // namespace dedloc::lab
