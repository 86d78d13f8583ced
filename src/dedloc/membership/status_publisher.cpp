#include "dedloc/membership/status_publisher.h"

#include <algorithm>

#include "dedloc/base/printable.h"
#include "dedloc/base/release.h"

namespace dedloc::membership {
namespace {

// The middle one of the peers that have answered a ping; 0: none has.
double middle_round_trip_s(const p2p::Host& host) {
    std::vector<Duration> round_trips;
    for (const PeerId& peer : host.connected_peers())
        if (const auto measured = host.round_trip(peer)) round_trips.push_back(*measured);
    if (round_trips.empty()) return 0;
    const auto middle = round_trips.begin() + static_cast<std::ptrdiff_t>(round_trips.size() / 2);
    std::ranges::nth_element(round_trips, middle);
    return to_seconds(*middle);
}

}  // namespace

bool StatusPublisher::set_phase(Phase phase) {
    const bool is_new = phase_ != phase;
    phase_ = phase;
    return is_new;
}

void StatusPublisher::set_accuracy(std::uint64_t step, double accuracy) {
    accuracy_ = accuracy;
    accuracy_step_ = step;
}

Status StatusPublisher::next() const {
    Status status;
    status.peer = host_.id();
    status.incarnation = 1;
    status.sequence = ++sequence_;
    status.role = role_;
    status.phase = phase_;
    status.round_trip_s = middle_round_trip_s(host_);
    status.accuracy = accuracy();
    status.accuracy_step = accuracy_step_;
    status.progress = download_progress_;
    status.addresses = host_.addresses();
    if (status.addresses.size() > status_addresses_max)
        status.addresses.resize(status_addresses_max);
    status.dialable = !status.addresses.empty();
    status.name = base::printable(name_, status_name_bytes_max);
    status.version = base::release;
    return status;
}

}  // namespace dedloc::membership
