// Attendance: for how long each device took part in a run, from its certified steps, as they come.
//
//   Attendance attendance;
//   attendance.add(step);                      // in order
//   attendance.devices().at(peer).seconds;     // as `dedloc report` and the web page tell
//
// A session: contributions of one device that follow each other within session_gap, or within
// session_gap_steps of the run's usual steps, where that is longer; usual is the median of the
// newest usual_steps_max. What was computed for a session's first step was computed since the step
// before it, and within session_gap.
//
// Source: participation time of the report of the sahajBERT run (DeDLOC, section 4). Nothing is
// taken from what peers tell of themselves. Cost of a step: O(its contributors · log devices).
// Thread: any; values.

#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/time.h"

namespace dedloc::monitor {

inline constexpr WallSeconds session_gap = 600;
inline constexpr double session_gap_steps = 3;
inline constexpr std::size_t usual_steps_max = 65;
// A contribution was computed for at least so long before its step was made, when nothing else is
// known of it: a session of one step is no moment.
inline constexpr WallSeconds session_least = 1;

struct CertifiedStep {
    struct Share {
        PeerId peer;
        double samples = 0;  // of it that are in the step
    };
    std::uint64_t step = 0;
    WallSeconds time = 0;
    std::optional<double> loss{};  // of what the peer that kept the log handed in
    std::vector<Share> shares;
};

struct DeviceTimes {
    double samples = 0;
    std::uint64_t sessions = 0;
    double seconds = 0;  // of all sessions
    double longest_seconds = 0;
    WallSeconds first_seen = 0;
    WallSeconds last_seen = 0;
};

class Attendance {
  public:
    // Devices beyond so many are not counted.
    explicit Attendance(std::size_t devices_max = std::numeric_limits<std::size_t>::max())
        : devices_max_(devices_max) {}

    // Steps in order; of one that is made anew the later certificate counts, too.
    void add(const CertifiedStep& step);
    const std::map<PeerId, DeviceTimes>& devices() const { return times_; }
    double seconds_of(const PeerId& peer) const;

  private:
    struct Session {
        WallSeconds begin = 0;
        double seconds_before = 0;  // of the sessions before it
    };
    WallSeconds gap() const;
    void contributed(const CertifiedStep::Share& share,
                     WallSeconds since,
                     WallSeconds time,
                     WallSeconds gap);

    std::size_t devices_max_;
    std::map<PeerId, DeviceTimes> times_;
    std::map<PeerId, Session> sessions_;  // the newest of each
    std::optional<WallSeconds> last_step_;
    std::deque<double> intervals_;
};

}  // namespace dedloc::monitor
