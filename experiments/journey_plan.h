// A plan of who takes part when in the journey: 40 people with 91 devices and 600 sessions in eight
// days, as in the sahajBERT run (mean session 4 h, longest 21 h, median of a person's time 1.5
// days).
//
// A person's share of the time is log-logistic, with the published ratio of mean and median;
// sessions are exponential and cut at the longest; those of one device do not overlap.
// Thread: any; pure. All times are hours of the run.

#pragma once
#include <cstdint>
#include <vector>

namespace dedloc::lab {

inline constexpr std::size_t journey_people = 40;
inline constexpr std::size_t journey_devices = 91;
inline constexpr std::size_t journey_sessions = 600;
inline constexpr double journey_hours = 8 * 24;
inline constexpr double session_mean_hours = 4;
inline constexpr double session_longest_hours = 21;
inline constexpr double median_hours = 36;

struct JourneySession {
    std::size_t device = 0;
    double begin = 0;
    double end = 0;
};

struct JourneyPlan {
    std::vector<std::size_t> person_of;    // by device
    std::vector<JourneySession> sessions;  // by begin
};

JourneyPlan plan_journey(std::uint64_t seed);

}  // namespace dedloc::lab
