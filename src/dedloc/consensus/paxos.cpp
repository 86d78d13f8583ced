#include "dedloc/consensus/paxos.h"

#include <algorithm>

namespace dedloc::consensus {
namespace {

ConsensusReply went_on() {
    ConsensusReply reply;
    reply.answer = Answer::refused;
    reply.reason = "this voter went on from that step before";
    return reply;
}

}  // namespace

bool PaxosAcceptor::open(const Digest& previous, const Instance& instance) {
    if (record_.previous == previous && record_.instance == instance) return true;
    std::vector<Digest>& passed = record_.passed;
    if (std::ranges::find(passed, previous) != passed.end()) return false;
    if (record_.promised > 0 || record_.has_accepted) passed.push_back(record_.previous);
    if (passed.size() > passed_max) passed.erase(passed.begin());
    AcceptorRecord opened;
    opened.instance = instance;
    opened.previous = previous;
    opened.passed = std::move(passed);
    record_ = std::move(opened);
    return true;
}

ConsensusReply PaxosAcceptor::prepare(const Digest& previous,
                                      const Instance& instance,
                                      std::uint32_t ballot) {
    if (!open(previous, instance)) return went_on();
    ConsensusReply reply;
    if (ballot < record_.promised) {
        reply.answer = Answer::outbid;
        reply.ballot = record_.promised;
        return reply;
    }
    record_.promised = ballot;
    reply.has_accepted = record_.has_accepted;
    reply.accepted_ballot = record_.accepted_ballot;
    reply.accepted_decision = record_.accepted_decision;
    return reply;
}

ConsensusReply PaxosAcceptor::accept(const Digest& previous,
                                     const Instance& instance,
                                     std::uint32_t ballot,
                                     const Bytes& decision) {
    if (!open(previous, instance)) return went_on();
    ConsensusReply reply;
    if (ballot < record_.promised && !bugs_.ignore_promises) {
        reply.answer = Answer::outbid;
        reply.ballot = record_.promised;
        return reply;
    }
    if (record_.has_accepted && record_.accepted_ballot == ballot &&
        record_.accepted_decision != decision && !bugs_.ignore_promises) {
        reply.answer = Answer::refused;
        reply.reason = "another value was proposed in this ballot";
        return reply;
    }
    record_.promised = ballot;
    record_.has_accepted = true;
    record_.accepted_ballot = ballot;
    record_.accepted_decision = decision;
    return reply;
}

bool Tally::is_voter(const PeerId& peer) const {
    return std::any_of(
        voters_.begin(), voters_.end(), [&](const Voter& voter) { return voter.peer == peer; });
}

std::size_t Tally::needed() const {
    const std::size_t all = quorum(voters_.size(), some_lie_);
    return bugs_.minority_commits && all > 1 ? all - 1 : all;
}

void Tally::promise(const PeerId& voter, const ConsensusReply& reply) {
    if (!is_voter(voter) || reply.answer != Answer::yes) return;
    promises_[voter] = true;
    if (reply.has_accepted && (!value_ || reply.accepted_ballot > value_ballot_)) {
        value_ = reply.accepted_decision;
        value_ballot_ = reply.accepted_ballot;
    }
}

void Tally::disown(const PeerId& voter) { disowned_ = disowned_ || is_voter(voter); }

std::size_t Tally::promises_needed() const {
    if (!disowned_ || !some_lie_) return needed();
    const std::size_t voters = voters_.size();
    const std::size_t lie_most = (voters - 1) / 3;
    return std::min(needed(), voters - needed() + lie_most + 1);
}

void Tally::vote(const PeerId& voter, Bytes signature) {
    if (is_voter(voter)) votes_[voter] = std::move(signature);
}

std::vector<Vote> Tally::votes() const {
    std::vector<Vote> votes;
    for (const auto& [voter, signature] : votes_) votes.push_back({voter, signature});
    return votes;
}

}  // namespace dedloc::consensus
