// Proposer: the leader's side of a decision: promises, votes, the certificate; and the new branch
// when no majority can be had.
//
// A proposer's ballots are its place in the leader order, place + n, place + 2n, … above everything
// it was outbid by. Thread: the network thread. Lifetime: stop() before destruction.

#pragma once
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "dedloc/consensus/acceptor.h"
#include "dedloc/consensus/environment.h"

namespace dedloc::consensus {

struct ProposerHooks {
    // A leader that failed is not waited for.
    std::function<bool(const PeerId&)> is_suspected;
    // Takes what a voter told of in its reply.
    std::function<void(const PeerId&, const std::vector<Bytes>&)> receive_certificates;
    // Peers that are to hear of a certificate, voters aside.
    std::function<std::set<PeerId>()> audience;
};

class Proposer {
  public:
    Proposer(const ConsensusEnvironment& environment, Acceptor& acceptor, ProposerHooks hooks);
    Task<void> stop() { return scope_.stop(); }

    // Another question is open.
    void ledger_moved();
    std::uint32_t next_ballot(const Base& base);
    // True when a majority promised and nothing had been accepted. What was accepted before is
    // proposed again on the spot, with `timeout`, and decides.
    Task<bool> prepare(Base base, std::uint32_t ballot, Duration timeout);
    // Before all voters are asked again. A leader that no majority answers in time would outbid the
    // others with each question and never lead itself: it asks less and less often.
    Duration pause_before_prepare() const;
    // True: it is certified, and told to all.
    Task<bool> propose(Base base, std::uint32_t ballot, Bytes decision, Duration timeout);
    // No majority of voters could be had for the quorum timeout. The survivors, without those who
    // refused to sign, go on as a branch of their own, if all of them sign.
    Task<void> open_branch(
        Base base, std::function<std::vector<Voter>(const std::set<PeerId>& refused)> survivors);

  private:
    struct Poll;      // a Tally and who waits for it
    struct Question;  // a proposal, compact and whole

    Task<void> ask_promise(PeerId voter, Prepare request, std::shared_ptr<Poll> poll);
    Task<bool> receive_promise(PeerId voter, Prepare request, std::shared_ptr<Poll> poll);
    Task<void> ask_vote(PeerId voter,
                        std::shared_ptr<const Question> question,
                        TimePoint deadline,
                        std::shared_ptr<Poll> poll);
    Task<bool> receive_vote(PeerId voter,
                            std::shared_ptr<const Question> question,
                            TimePoint deadline,
                            std::shared_ptr<Poll> poll);
    Task<void> sign_branch(Base base,
                           std::vector<Voter> survivors,
                           std::shared_ptr<std::set<PeerId>> refused);
    void learn_from(const PeerId& voter, const ConsensusReply& reply);
    Task<Result<ConsensusReply>> call_for_vote(PeerId voter,
                                               std::shared_ptr<const Question> question,
                                               TimePoint deadline);
    void publish(const Base& base, const Certificate& certificate);
    Task<void> send_certificate(PeerId peer, Bytes certified, Bytes certificate);

    const ConsensusEnvironment& environment_;
    Acceptor& acceptor_;
    ProposerHooks hooks_;
    std::uint32_t ballot_round_ = 0;  // of the next ballot of ours in the open instance
    int unanswered_prepares_ = 0;     // by a majority: in a row, in the open instance
    std::uint32_t outbid_ = 0;        // highest ballot heard of in the open instance
    // Where voters may lie: decisions of this step that we do not vote for ourselves. A voter that
    // says to have accepted one has not promised, as we could never propose it again.
    std::set<Digest> unvotable_;
    runtime::Scope scope_;
};

}  // namespace dedloc::consensus
