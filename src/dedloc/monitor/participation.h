// Participation: who took part in a run, for how long, and what came of it, from certified steps.
//
// The authors of a step's samples stand in its certificate, signed by a majority of voters; when
// the step was made is what the clock of the peer that kept the log said. Nothing is taken from
// what peers tell of themselves but their names.
//
//   device    a PeerId                     person   whoever its name or token says; else the device
//   session   contributions of one device that follow each other closely (attendance.h)
//
// Source: the report of the sahajBERT run (DeDLOC, section 4 and its appendix): people, devices,
// sessions, their mean and longest, median participation. Cost: O(n log n) in the contributions.
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/time.h"
#include "dedloc/monitor/attendance.h"

namespace dedloc::monitor {

inline constexpr std::size_t curve_points_max = 400;  // of what is drawn

struct PersonReport {
    std::string name;
    std::uint64_t devices = 0;
    std::uint64_t sessions = 0;
    double samples = 0;
    double device_seconds = 0;  // sum over devices of their sessions
    WallSeconds first_seen = 0;
    WallSeconds last_seen = 0;
};

struct CurvePoint {
    WallSeconds time = 0;
    std::uint64_t step = 0;
    std::optional<double> loss;
    double devices = 0;  // that contributed, mean over the steps of this point
    double samples = 0;  // certified since the point before
};

struct Participation {
    std::uint64_t steps = 0;
    double samples = 0;
    WallSeconds begin = 0;
    WallSeconds end = 0;
    std::uint64_t devices = 0;
    std::uint64_t sessions = 0;
    double session_mean_seconds = 0;
    double session_longest_seconds = 0;
    double participation_median_seconds = 0;  // of persons' device_seconds
    std::vector<PersonReport> persons;        // by samples, most first
    std::vector<CurvePoint> curve;            // at most curve_points_max, in order
    std::vector<std::uint64_t> steps_by_day;  // whole days since `begin`

    double days() const { return (end - begin) / 86'400; }
};

// Steps in order; `persons` names the devices whose person is known.
Participation participation_of(const std::vector<CertifiedStep>& steps,
                               const std::map<PeerId, std::string>& persons);

std::string to_json(const Participation& report);
// For a terminal: the sums, and the persons with most samples.
std::string to_text(const Participation& report);

}  // namespace dedloc::monitor
