// Consensus needs from outside: the machine, whom it asks about the run (Electorate), about
// the bytes of averages (Averages), and who acts on what it finds out (Listener). All are constant
// for a node's life.
//
// Thread: the network thread; calls of the three interfaces return at once unless they are tasks.

#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/consensus/ledger.h"
#include "dedloc/consensus/order_judge.h"
#include "dedloc/consensus/peer_score.h"
#include "dedloc/events/complaints.h"
#include "dedloc/links/timeouts.h"
#include "dedloc/p2p/host.h"
#include "dedloc/runtime/node.h"
#include "dedloc/security/signer.h"

namespace dedloc::consensus {

// Tells which peers may speak and vote, as far as this one has heard.
class Electorate {
  public:
    virtual ~Electorate() = default;
    // May this peer speak in rounds at all (it proved the run's secret)?
    virtual bool allowed(const PeerId& peer) const = 0;
    // A peer that may not is told this.
    virtual std::string refusal(const PeerId&) const {
        return "say hello first: this run does not know you";
    }
    // An organiser has put this peer out: no vote of it comes any more.
    virtual bool is_put_out(const PeerId&) const { return false; }
    // Voters of `base` (us included) that are heard of and still have their memory of votes.
    virtual std::size_t voters_heard_of(const Base& base) const = 0;
    // Voters that have not gone on as another branch.
    virtual std::size_t voters_of_our_branch(const Base& base) const {
        return voters_heard_of(base);
    }
    // Somebody tells of certificates that follow those of `base`: its chain goes on without us.
    virtual bool chain_goes_on(const Base&) const { return false; }
    // The state of another chain, or of a later step, is on its way to us.
    virtual bool loads_state() const { return false; }
};

// A majority of its voters is heard of, or somebody tells of what they decided.
inline bool lives(const Electorate& electorate, const Base& base) {
    return electorate.voters_heard_of(base) >= base.quorum() || electorate.chain_goes_on(base);
}

// The voters that were not put out are too few to decide anything: waiting for them is in vain.
inline bool is_put_out_of_reach(const Electorate& electorate, const Base& base) {
    const auto may_vote = [&electorate](const Voter& voter) {
        return !electorate.is_put_out(voter.peer);
    };
    return !base.voters.empty() &&
           static_cast<std::size_t>(std::ranges::count_if(base.voters, may_vote)) < base.quorum();
}

// A revocation passes from peer to peer within a second.
inline constexpr Duration put_out_timeout = 1s;

// How long a majority of voters is waited for; a long round may keep them silent for as long. Where
// it cannot come back, only until all have heard of that.
inline Duration quorum_timeout(const Electorate& electorate,
                               const Base& base,
                               const links::Timeouts& timeouts,
                               Duration timeout) {
    return is_put_out_of_reach(electorate, base) ? put_out_timeout : timeouts.at_least(timeout);
}

// May this peer ask us anything?
inline Ok gate(const Electorate& electorate, const PeerId& from) {
    if (electorate.allowed(from)) return {};
    return make_error(ErrorKind::denied, "{}", electorate.refusal(from));
}

// Answers a voter's question about a commit: do we hold its averages? What their bytes are, only
// the answering module knows.
class Averages {
  public:
    virtual ~Averages() = default;
    // May a round of this run have this plan? Errors: peer_broke_protocol.
    virtual Ok check_plan(const RoundPlan& plan) const = 0;
    // Fetches what is missing and looks at what nobody has looked at. Errors: peer_broke_protocol:
    // bytes that nobody can apply; others: they are not here in time.
    virtual Task<Result<void>> hold(std::shared_ptr<const RoundPlan> plan,
                                    std::vector<FinishedPart> parts,
                                    PeerId proposer) = 0;
    // In a robust run: is it proved that these averages are right? Errors: peer_broke_protocol:
    // they are not; others: what proves it does not come in time.
    virtual Task<Result<void>> prove(std::shared_ptr<const RoundPlan>,
                                     Decision,
                                     PeerId /*proposer*/) {
        co_return Result<void>();
    }
    // Writes this voter's share of them to disk, in the background.
    virtual void keep(const RoundPlan& plan, const Decision& decision) = 0;
};

// Is asked to act on what consensus finds out.
class ConsensusListener {
  public:
    virtual ~ConsensusListener() = default;
    // `peer` knows certificates that we lack.
    virtual void behind(const PeerId& peer) = 0;
    // We vote for this commit and hold every average of it: most likely it will be certified.
    virtual void voting_for(const Decision& decision) = 0;
};

struct ConsensusOptions {
    Duration quorum_timeout = 10s;
    Duration announce_interval = 250ms;  // how often a member looks whether the leader lives
    PlantedBugs bugs{};
};

struct ConsensusEnvironment {
    runtime::Node node;
    p2p::Host& host;
    const security::Signer& signer;
    const security::Verifier& verifier;
    Ledger& ledger;
    PeerScore& scores;
    const links::Timeouts& timeouts;
    const Electorate& electorate;
    Averages& averages;
    ConsensusListener& listener;
    events::Teller& teller;
    events::Complaints& complaints;
    ConsensusOptions options;
    OrderJudge& judge = no_new_orders();

    TimePoint now() const { return node.clock.now(); }
    const PeerId& me() const { return host.id(); }
    // Says that a peer broke the protocol.
    void complain_of(const PeerId& peer, std::string why) const {
        complaints.add(peer, now(), std::move(why));
    }
    Duration quorum_timeout() const {
        return consensus::quorum_timeout(
            electorate, ledger.base(), timeouts, options.quorum_timeout);
    }
};

// A message of this kind.
inline Error unreadable(const char* what) {
    return make_error(ErrorKind::peer_broke_protocol, "a {} that cannot be read", what);
}

}  // namespace dedloc::consensus
