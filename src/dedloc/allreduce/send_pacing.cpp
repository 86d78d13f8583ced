#include "dedloc/allreduce/send_pacing.h"

#include <algorithm>

namespace dedloc::allreduce {
namespace {

double share(double sent, std::size_t parts) {
    return sent / static_cast<double>(std::max<std::size_t>(parts, 1));
}

}  // namespace

void SendPacing::begin(std::uint32_t stream, std::size_t parts, double phase, TimePoint now) {
    streams_[stream] = {.parts = parts, .sent = 0, .phase = phase, .begun = now, .moved = now};
}

double SendPacing::position(const Stream& stream) {
    return share(static_cast<double>(stream.sent) + stream.phase, stream.parts);
}

void SendPacing::sent(std::uint32_t stream, TimePoint now) {
    const auto found = streams_.find(stream);
    if (found == streams_.end()) return;
    found->second.moved = now;
    if (++found->second.sent >= found->second.parts) streams_.erase(found);
}

void SendPacing::end(std::uint32_t stream) { streams_.erase(stream); }

bool SendPacing::moves(const Stream& stream, TimePoint now) const {
    const double due =
        to_seconds(whole_) * share(static_cast<double>(stream.sent + 1), stream.parts);
    return now - stream.moved <= timeout_ && now - stream.begun <= timeout_ + from_seconds(due);
}

bool SendPacing::may_send(std::uint32_t stream, TimePoint now) {
    const auto mine = streams_.find(stream);
    if (mine == streams_.end()) return true;
    const Stream me = mine->second;
    for (auto other = streams_.begin(); other != streams_.end();) {
        const double ahead =
            (position(me) - position(other->second)) * static_cast<double>(other->second.parts);
        if (other->first == stream || ahead < lead_max)
            ++other;
        else if (moves(other->second, now))
            return false;
        else
            other = streams_.erase(other);
    }
    return true;
}

}  // namespace dedloc::allreduce
