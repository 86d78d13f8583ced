#include "dedloc/averaging/leader_election.h"

#include <algorithm>

namespace dedloc::averaging {
namespace {

// After so many timeouts a quorum is lost although voters answer: they bring no round about.
constexpr int quorum_timeouts_at_most = 3;

}  // namespace

LeaderElection::LeaderElection(const RoundEnvironment& environment,
                               const consensus::PeerScore& scores,
                               const links::Timeouts& timeouts,
                               OpenRound& open,
                               const consensus::Acceptor& acceptor,
                               events::Complaints& complaints)
    : environment_(environment),
      scores_(scores),
      timeouts_(timeouts),
      open_(open),
      acceptor_(acceptor),
      complaints_(complaints) {}

bool LeaderElection::suspected(const PeerId& peer) const {
    if (acceptor_.has_offended(peer)) return true;
    const auto found = suspects_.find(peer);
    return found != suspects_.end() && found->second > environment_.now();
}

bool LeaderElection::is_here(const PeerId& peer) const {
    return peer == environment_.me() || environment_.host.is_connected(peer);
}

void LeaderElection::suspect(const PeerId& peer, std::string why, Duration how_long) {
    suspects_[peer] = environment_.now() + how_long;
    environment_.teller.tell(events::LeaderSuspected{}, peer, std::move(why));
}

void LeaderElection::pass_over(const PeerId& peer) {
    suspects_[peer] = environment_.now() + suspicion_of_leaders;
}

void LeaderElection::refuse_plan(const PeerId& leader, const Error& why) {
    complaints_.add_if_broken(leader, environment_.now(), why);
    if (why.kind() != ErrorKind::peer_broke_protocol) return;
    suspect(leader, why.message(), suspicion_of_liars);
    open_.changed().pulse();
}

void LeaderElection::was_fruitless(const PeerId& leader) {
    if (++fruitless_[leader] < fruitless_rounds_max || suspected(leader)) return;
    suspect(
        leader, "its rounds come to an end, and no majority agrees to them", suspicion_of_liars);
    open_.changed().pulse();
}

bool LeaderElection::slept() const { return environment_.now() - awake_at_ > sleep_min; }

bool LeaderElection::quorum_is_lost() const {
    if (!open_.wanted_since() || slept()) return false;
    const Duration waited = environment_.now() - *open_.wanted_since();
    const Duration timeout = quorum_timeout(environment_, timeouts_);
    if (waited <= timeout || environment_.roster.loads_state()) return false;
    return !consensus::lives(environment_.roster, environment_.ledger.base()) ||
           waited > timeout * quorum_timeouts_at_most;
}

bool LeaderElection::may_follow(const consensus::Decision& branch) const {
    const auto is_us = [this](const consensus::Voter& voter) {
        return voter.peer == environment_.me();
    };
    if (std::ranges::any_of(branch.next_voters, is_us)) return true;
    const consensus::Base& base = environment_.ledger.base();
    if (environment_.roster.voters_of_our_branch(base) < base.quorum() &&
        !environment_.roster.chain_goes_on(base))
        return true;
    if (base.protection.rules.on && !consensus::names_quorum(branch, base)) return false;
    const Duration waited =
        open_.wanted_since() ? environment_.now() - *open_.wanted_since() : Duration(0);
    return waited > quorum_timeout(environment_, timeouts_);
}

std::optional<PeerId> LeaderElection::pick(const consensus::Base& base) const {
    std::optional<PeerId> left_over;
    for (const PeerId& candidate : consensus::leader_order(base.previous, base.voters)) {
        if (candidate == environment_.me() ? !acceptor_.may_lead() : suspected(candidate)) continue;
        if (environment_.roster.is_put_out(candidate)) continue;
        if (scores_.may_lead(candidate)) return candidate;
        if (!left_over) left_over = candidate;
    }
    if (left_over) return left_over;
    if (!quorum_is_lost()) return std::nullopt;
    // No voter answers and has not for long: whoever is left of the trainers may open a branch. Not
    // who has no state to begin it with.
    const std::vector<PeerId> newcomers = environment_.roster.newcomers();
    std::vector<consensus::Voter> left{{environment_.me(), 0, true}};
    for (const PeerId& peer : environment_.roster.live_trainers())
        if (std::ranges::find(newcomers, peer) == newcomers.end()) left.push_back({peer, 0, true});
    for (const PeerId& candidate : consensus::leader_order(base.previous, left))
        if (candidate == environment_.me() || !suspected(candidate)) return candidate;
    return std::nullopt;
}

bool LeaderElection::has_followed(const consensus::Base& base,
                                  const PeerId& leader,
                                  Duration duration) {
    if (followed_ != std::make_pair(base.previous, leader)) {
        followed_ = {base.previous, leader};
        followed_since_ = environment_.now();
    }
    return environment_.now() - followed_since_ > duration;
}

}  // namespace dedloc::averaging
