#include "dedloc/membership/sample_claims.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dedloc/membership/pace.h"

namespace dedloc::membership {
namespace {

constexpr double generosity = 2;
constexpr double batches_per_s_max = 1e4;  // that a speed is worth, whatever was told
constexpr double micro_batches_in_the_making = 4;

// A peer tells what it makes on average, and how long its quickest micro-batch took: on a busy
// machine it makes many of them at once, and none for a while.
double fastest_of(const KnownPeer& peer, const run::BatchConfig& batch) {
    double speed = peer.samples_per_s_most;
    if (peer.micro_batch_s_least > 0)
        speed = std::max(speed, static_cast<double>(batch.micro) / peer.micro_batch_s_least);
    return std::min(speed, batches_per_s_max * static_cast<double>(batch.target));
}

}  // namespace

void SampleClaims::committed(std::optional<TimePoint> handed_in_at) {
    std::shift_right(in_commit_since_.begin(), in_commit_since_.end(), 1);
    in_commit_since_[0] = handed_in_at;
}

// Fresh samples are computed at the open step's state, carried ones at the state before it; with
// the delayed update one step earlier, with fragments at those since theirs was moved. When such a
// state came to be nobody here saw, but our part in the commit that made it was handed in before
// that. Steps may take a tenth of a second.
double SampleClaims::computed_since(const KnownPeer& peer,
                                    std::size_t steps_ago,
                                    TimePoint now) const {
    const auto target = static_cast<double>(batch_.target);
    const double speed = fastest_of(peer, batch_);
    const std::optional<TimePoint> since = in_commit_since_[(delayed_ ? 1 : 0) + steps_ago];
    if (!since || speed <= 0) return std::numeric_limits<double>::infinity();
    double seconds = to_seconds(now - *since);
    // Where each peer's micro-batches are of its own size, nobody knows how quick the quickest is:
    // all that its speed was measured by may have come at once.
    if (batch_.micro == run::micro_auto) seconds = std::max(seconds, pace_window_s);
    const double told = peer.samples_per_s_most * std::max(0.0, peer.status.micro_batch_s);
    const double micro = std::min(std::max(static_cast<double>(batch_.micro), told), target);
    return generosity * speed * seconds + micro_batches_in_the_making * micro;
}

Ok SampleClaims::check(const KnownPeer& peer,
                       const consensus::MemberInput& input,
                       bool told_of_all,
                       TimePoint now) const {
    for (const bool carried : {false, true}) {
        const std::uint64_t samples = carried ? input.carried.size() : input.fresh.size();
        const double most = computed_since(peer, (carried ? 2 : 1) * fragments_ - 1, now);
        if (static_cast<double>(samples) <= most) continue;
        if (!told_of_all)
            return make_error(ErrorKind::overloaded, "its status is still on its way");
        return make_error(
            ErrorKind::peer_broke_protocol,
            "a contribution is refused: it claims {} {}samples; at {:.3g} samples a "
            "second, the most that its statuses have told, it has computed at most "
            "{:.0f} since that step began, twice that and a few micro-batches allowed "
            "for",
            samples,
            carried ? "carried " : "",
            fastest_of(peer, batch_),
            std::floor(most));
    }
    return {};
}

}  // namespace dedloc::membership
