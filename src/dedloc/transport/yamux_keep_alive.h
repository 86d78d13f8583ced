// Whether a yamux session's peer is there: when to ping it, and when to give up on it. Time comes
// in as an argument.

#pragma once
#include <cstdint>
#include <optional>

#include "dedloc/base/time.h"

namespace dedloc::transport {

class KeepAlive {
  public:
    // The first ping is due at once: it measures the round trip.
    KeepAlive(TimePoint now, Duration interval)
        : interval_(interval), last_heard_(now), next_ping_(now) {}

    void hear(TimePoint now) { last_heard_ = now; }
    TimePoint last_heard() const { return last_heard_; }
    // Wants a sign of life within `answer_max`. Returns the value to ping with; nothing while
    // another ping is under way, whose answer is then wanted so soon.
    std::optional<std::uint32_t> probe(TimePoint now, Duration answer_max);
    // The ping leaves only now: it waited for its turn.
    void ping_leaves(TimePoint now) { ping_sent_ = now; }
    void receive_answer(std::uint32_t value, TimePoint now);
    // False: an answer is overdue, and nothing else came either.
    bool is_alive(TimePoint now);
    bool ping_is_due(TimePoint now) const { return !ping_outstanding_ && now >= next_ping_; }
    TimePoint next_tick() const { return ping_outstanding_ ? answer_deadline_ : next_ping_; }
    std::optional<Duration> round_trip() const { return round_trip_; }

  private:
    void end_ping(TimePoint now);

    Duration interval_;
    TimePoint last_heard_;
    TimePoint next_ping_;
    std::optional<std::uint32_t> ping_outstanding_;
    TimePoint ping_sent_;
    TimePoint answer_deadline_ = TimePoint::never();
    std::uint32_t ping_value_ = 0;
    std::optional<Duration> round_trip_;
};

}  // namespace dedloc::transport
