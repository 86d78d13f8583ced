// CapSchedule: how fast a peer may send or receive at what time of the day, as users write it for
// --max-up and --max-down:
//
//   20                         20 Mb/s
//   5,23:00-07:00=50           50 Mb/s between 23:00 and 07:00, 5 else
//   off,09:00-12:00=5,13:00-18:00=5
//
// Times are local ones; a range may pass midnight, and its end belongs to what comes after it. `0`
// and `off` mean no limit.
//
// Errors: bad_input, with what is wrong and an example.

#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/base/time.h"
#include "dedloc/events/events.h"
#include "dedloc/runtime/limited_network.h"

namespace dedloc::peer {

inline constexpr int minutes_of_day = 24 * 60;
// Below it a connection's own messages (pings, statuses, certificates) leave no room for parts, and
// peers take it for dead.
inline constexpr double cap_mbit_min = 0.1;
inline constexpr double cap_mbit_max = 1e6;
inline constexpr std::size_t cap_ranges_max = 48;

class CapSchedule {
  public:
    static Result<CapSchedule> parse(std::string_view text);

    // Mb/s at that minute of the day, 0 to 1439; 0: no limit.
    double value_at(int minute) const;

  private:
    struct Range {
        int begin;  // minutes of the day
        int end;    // before begin: on the next day
        double mbit;

        bool contains(int minute) const;
        bool overlaps(const Range& other) const;
    };
    static Result<Range> parse_range(std::string_view text);
    Ok add(std::string_view text);

    double otherwise_ = 0;
    std::vector<Range> ranges_;
};

// Local.
int minute_of_day(WallSeconds time);

// Parses both options into what NodeOptions wants; an empty text is no cap, and two of them give an
// empty function.
Result<std::function<runtime::LineCaps(WallSeconds)>> caps_of_day(const std::string& max_up,
                                                                  const std::string& max_down);

// For people: "sends at most 5 Mb/s, receives without limit".
std::string caps_in_words(const runtime::LineCaps& caps);
// Other caps are in force than before (docs/events.md).
events::Event caps_event(const runtime::LineCaps& caps, WallSeconds now);

}  // namespace dedloc::peer
