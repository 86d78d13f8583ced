// ConsensusService: answers what other peers ask to decide a step: prepare, propose, certified,
// certificate, certificates. It hands them to the acceptor and the ledger, and makes whole what a
// compact proposal leaves out, by what the round under way holds.
//
// Thread: the network thread. Lifetime: stop() before destruction.

#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/consensus/acceptor.h"
#include "dedloc/consensus/environment.h"
#include "dedloc/p2p/handlers.h"

namespace dedloc::consensus {

// The round that is under way here, as far as deciding depends on it.
class RoundUnderWay {
  public:
    virtual ~RoundUnderWay() = default;
    // Is a promise to `from` refused, as the round's leader lives?
    virtual bool keeps_to_round(const PeerId& from, const Prepare& prepare) const = 0;
    virtual void is_proposed_to(const PeerId& leader) = 0;
    // The decision of a compact proposal, as soon as its averages have come. Errors: not_found.
    virtual Task<Result<Bytes>> whole_proposal(Propose propose) = 0;
    // A leader proposed what cannot be read, or cannot be true: it brings no round about.
    virtual void unreadable_proposal(const PeerId& from, const Error& why) = 0;
    virtual void untrue_proposal(const PeerId& from, const std::string& why) = 0;
};

class ConsensusService {
  public:
    ConsensusService(const ConsensusEnvironment& environment,
                     Acceptor& acceptor,
                     RoundUnderWay& round);

    void start();
    Task<void> stop();

    // Is shown every certificate that somebody sends unasked, whatever it is worth.
    void on_sent(std::function<void(ByteView)> look) { on_sent_ = std::move(look); }
    // Takes certificates that follow, in order; stops at the first that is refused.
    void receive_certificates(const PeerId& from, const std::vector<Bytes>& certificates);
    bool receive_certificate(const PeerId& from, const Bytes& certificate);

  private:
    Task<Result<Bytes>> on_prepare(PeerId from, Bytes request);
    Task<Result<Bytes>> on_propose(PeerId from, Bytes request);
    Task<Result<Bytes>> on_certificate(PeerId from, Bytes request);
    Task<Result<Bytes>> on_certified(PeerId from, Bytes request);
    Task<Result<Bytes>> on_certificates(PeerId from, Bytes request);
    void receive_certified(const PeerId& from, Bytes decision, Certified certified);
    Task<void> receive_certified_later(PeerId from, Propose compact, Certified certified);

    const ConsensusEnvironment& environment_;
    Acceptor& acceptor_;
    RoundUnderWay& round_;
    std::function<void(ByteView)> on_sent_;
    Bytes proposal_;                               // the newest decision that we were asked about
    std::pair<PeerId, Propose> compact_proposal_;  // the newest one that came, and its sender
    std::size_t certified_later_ = 0;              // certificates that wait for averages
    p2p::Handlers handlers_;
    runtime::Scope scope_;
};

}  // namespace dedloc::consensus
