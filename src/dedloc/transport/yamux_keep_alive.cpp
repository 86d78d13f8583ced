#include "dedloc/transport/yamux_keep_alive.h"

#include <algorithm>

namespace dedloc::transport {

std::optional<std::uint32_t> KeepAlive::probe(TimePoint now, Duration answer_max) {
    answer_deadline_ = std::min(answer_deadline_, now + answer_max);
    if (ping_outstanding_) return std::nullopt;
    ping_outstanding_ = ++ping_value_;
    ping_sent_ = now;
    return ping_value_;
}

void KeepAlive::receive_answer(std::uint32_t value, TimePoint now) {
    if (ping_outstanding_ != value) return;
    const Duration measured = now - ping_sent_;
    // As TCP smooths it (RFC 6298).
    round_trip_ = round_trip_ ? *round_trip_ + (measured - *round_trip_) / 8 : measured;
    end_ping(now);
}

bool KeepAlive::is_alive(TimePoint now) {
    if (!ping_outstanding_ || now < answer_deadline_) return true;
    if (last_heard_ <= ping_sent_) return false;
    end_ping(now);  // its answer queues behind data: ask again
    return true;
}

void KeepAlive::end_ping(TimePoint now) {
    ping_outstanding_.reset();
    answer_deadline_ = TimePoint::never();
    next_ping_ = now + interval_;
}

}  // namespace dedloc::transport
