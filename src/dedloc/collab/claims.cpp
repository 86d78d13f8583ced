// What is believed of the samples that others say they have computed: no more than their own speed
// makes of the time that they can have had. Generous, as an honest peer must never be refused:
// machines become slower and faster, and statuses come late. A speed itself nobody can check;
// docs/security.md says what that leaves.

#include <cmath>
#include <limits>

#include "dedloc/collab/collaboration_impl.h"

namespace dedloc::collab {
namespace {

constexpr double generosity = 2;
constexpr double batches_per_s_max = 1e4;  // that a speed is worth, whatever was told
constexpr double micro_batches_in_the_making = 4;

}  // namespace

// Fresh samples are computed at the open step's state, carried ones at the state before it; with
// the delayed update one step earlier. When such a state came to be nobody here saw, but our part
// in the commit that made it was handed in before that.
std::optional<TimePoint> CollaborationImpl::computed_since(bool carried) const {
    const std::size_t steps_before =
        (options_.run.averaging.delayed ? 1u : 0u) + (carried ? 1u : 0u);
    return in_commit_since_[steps_before];
}

// At the highest speed that it ever told. Steps may take a tenth of a second.
double CollaborationImpl::computed_most(const KnownPeer& peer, bool carried) const {
    const BatchConfig& batch = options_.run.batch;
    const double speed =
        std::min(peer.samples_per_s_most, batches_per_s_max * static_cast<double>(batch.target));
    const std::optional<TimePoint> since = computed_since(carried);
    if (!since || speed <= 0) return std::numeric_limits<double>::infinity();
    const double seconds = to_seconds(node_.clock.now() - *since);
    const double told = speed * std::max(0.0, peer.status.micro_batch_s);
    const double micro = std::min(std::max(static_cast<double>(batch.micro), told),
                                  static_cast<double>(batch.target));
    return generosity * speed * seconds + micro_batches_in_the_making * micro;
}

// Its newest status is from when it had handed in, or later: so is the speed in it.
bool CollaborationImpl::told_of_all_it_hands_in(const Status& status) const {
    const consensus::Instance& open = ledger_.base().instance;
    return status.branch == open.branch && status.step == open.step && status.samples > 0 &&
           (status.phase == Phase::averaging || status.phase == Phase::leaving);
}

Ok CollaborationImpl::check_samples(const PeerId& peer, const consensus::MemberInput& input) const {
    const KnownPeer* const known = membership_->find(peer);
    if (known == nullptr) return {};
    for (const bool carried : {false, true}) {
        const std::uint64_t samples = carried ? input.carried.size() : input.fresh.size();
        const double most = computed_most(*known, carried);
        if (static_cast<double>(samples) <= most) continue;
        if (!told_of_all_it_hands_in(known->status))
            return make_error(ErrorKind::overloaded, "its status is still on its way");
        return make_error(
            ErrorKind::peer_broke_protocol,
            "a contribution is refused: it claims {} {}samples; at {:.3g} samples a "
            "second, the most that its statuses have told, it has computed at most "
            "{:.0f} since that step began, twice that and a few micro-batches allowed "
            "for",
            samples,
            carried ? "carried " : "",
            known->samples_per_s_most,
            std::floor(most));
    }
    return {};
}

}  // namespace dedloc::collab
