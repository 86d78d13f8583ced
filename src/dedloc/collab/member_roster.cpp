#include "dedloc/collab/member_roster.h"

#include <algorithm>

namespace dedloc::collab {

// By step rather than by certificate: a peer that has not heard of an aborted attempt or a new
// branch yet will in a moment.
bool works_on_step(const membership::Status& status, const consensus::Base& base) {
    return (status.branch == base.instance.branch && status.step == base.instance.step &&
            !status.certificate.is_zero()) ||
           (base.is_voter(status.peer) && status.step == base.instance.step);
}

// ---- every peer that reduces --------------------------------------------------------------------

std::vector<PeerId> MemberRoster::live_trainers() const {
    std::vector<PeerId> trainers;
    for (const membership::KnownPeer* peer : membership_.live())
        if (peer->status.role == membership::Role::trainer) trainers.push_back(peer->status.peer);
    return trainers;
}

std::size_t MemberRoster::count_voters(
    const consensus::Base& base,
    const std::function<bool(const membership::Status&)>& counts) const {
    const auto is_voter = [&](const membership::KnownPeer* peer) {
        return peer->status.role == membership::Role::trainer &&
               base.voter_incarnation(peer->status.peer) == peer->status.incarnation &&
               counts(peer->status);
    };
    return static_cast<std::size_t>(std::ranges::count_if(membership_.live(), is_voter));
}

std::size_t MemberRoster::voters_heard_of(const consensus::Base& base) const {
    return count_voters(base, [](const membership::Status&) { return true; });
}

bool MemberRoster::chain_goes_on(const consensus::Base& base) const {
    return std::ranges::any_of(membership_.live(), [&base](const membership::KnownPeer* peer) {
        return replica::is_ahead(peer->status, base);
    });
}

double MemberRoster::upload_bytes_per_s(const PeerId& peer) const {
    const membership::KnownPeer* const known = membership_.find(peer);
    return known == nullptr ? 0 : known->status.upload_bytes_per_s;
}

// ---- one that leads and votes -------------------------------------------------------------------

// A peer that is a step behind and speaks is making this step as well, over a slower link. If it
// were not waited for, it would come too late to every round that follows.
bool TrainerRoster::arrives_at(const membership::KnownPeer& peer,
                               const consensus::Base& base) const {
    return peer.status.branch == base.instance.branch &&
           peer.status.step + 1 == base.instance.step &&
           peer.received > context_.report.decided_at();
}

std::vector<PeerId> TrainerRoster::expected(const consensus::Base& base) const {
    std::vector<PeerId> expected;
    for (const membership::KnownPeer* peer : membership_.live()) {
        const membership::Status& status = peer->status;
        if (status.is_training() &&
            (works_on_step(status, ledger_.base()) || arrives_at(*peer, base)))
            expected.push_back(status.peer);
    }
    return expected;
}

bool TrainerRoster::has_contributed(const PeerId& peer) const {
    return membership_.has_contributed(peer);
}

bool TrainerRoster::is_believed(const PeerId& peer) const {
    return context_.claims.promises().are_believed(has_contributed(peer),
                                                   context_.node.clock.now());
}

std::vector<PeerId> TrainerRoster::newcomers() const {
    const consensus::Instance& open = ledger_.base().instance;
    std::vector<PeerId> newcomers;
    for (const membership::KnownPeer* peer : membership_.live()) {
        const membership::Status& status = peer->status;
        const bool lags = status.branch == open.branch && status.step + 1 < open.step;
        if (status.role == membership::Role::trainer && (status.is_newcomer() || lags))
            newcomers.push_back(status.peer);
    }
    return newcomers;
}

// One, if this peer is a voter of `base` with its memory of votes.
std::size_t TrainerRoster::we_vote(const consensus::Base& base) const {
    return base.voter_incarnation(context_.host.id()) == engine_->incarnation() ? 1 : 0;
}

std::size_t TrainerRoster::voters_heard_of(const consensus::Base& base) const {
    return we_vote(base) + MemberRoster::voters_heard_of(base);
}

std::size_t TrainerRoster::voters_of_our_branch(const consensus::Base& base) const {
    return we_vote(base) + count_voters(base, [&base](const membership::Status& status) {
               return status.branch == base.instance.branch;
           });
}

bool TrainerRoster::allowed(const PeerId& peer) const {
    return MemberRoster::allowed(peer) && orders_.why_kept_out(peer).empty();
}

bool TrainerRoster::is_put_out(const PeerId& peer) const {
    return membership_.authorizer().has_put_out(peer);
}

std::string TrainerRoster::refusal(const PeerId& peer) const {
    std::string why = orders_.why_kept_out(peer);
    return why.empty() ? Electorate::refusal(peer) : why;
}

double TrainerRoster::micro_batch_s() const {
    double longest = context_.progress.micro_batch_s();
    const TimePoint now = context_.node.clock.now();
    for (const membership::KnownPeer* peer : membership_.live())
        if (context_.claims.promises().are_believed(peer->contributed, now))
            longest = std::max(longest, peer->status.micro_batch_s);
    return longest;
}

Ok TrainerRoster::check_samples(const PeerId& peer, const consensus::MemberInput& input) const {
    const membership::KnownPeer* const known = membership_.find(peer);
    if (known == nullptr) return {};
    const membership::Status& status = known->status;
    const consensus::Instance& open = ledger_.base().instance;
    // The member's newest status is from when it had handed in, or later: so is the speed in it.
    const bool told_of_all = status.branch == open.branch && status.step == open.step &&
                             status.samples > 0 &&
                             (status.phase == membership::Phase::averaging ||
                              status.phase == membership::Phase::leaving);
    return context_.claims.check(*known, input, told_of_all, context_.node.clock.now());
}

}  // namespace dedloc::collab
