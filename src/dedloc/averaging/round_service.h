// RoundService: answers what others ask of this peer in a round, at any time: announce, plan, probe
// (for parts: parts_service.h); and tells consensus about the round that is under way.
//
// Thread: the network thread. Lifetime: stop() before destruction.

#pragma once
#include <memory>
#include <string>

#include "dedloc/averaging/following.h"
#include "dedloc/averaging/round_parts.h"
#include "dedloc/consensus/service.h"
#include "dedloc/p2p/handlers.h"

namespace dedloc::averaging {

class RoundService final : public consensus::RoundUnderWay {
  public:
    explicit RoundService(RoundParts& parts);

    void start(const Following& following);
    Task<void> stop() { return handlers_.stop(); }
    // A part that others decided about and that we lack comes in a moment: to ask for it would be
    // to have it twice over a link that is full.
    Task<void> arrival(consensus::FinishedPart part, TimePoint deadline);

    // consensus::RoundUnderWay
    bool keeps_to_round(const PeerId& from, const consensus::Prepare& prepare) const override;
    void is_proposed_to(const PeerId& leader) override;
    Task<Result<Bytes>> whole_proposal(consensus::Propose propose) override;
    void unreadable_proposal(const PeerId& from, const Error& why) override;
    void untrue_proposal(const PeerId& from, const std::string& why) override;

  private:
    Task<Result<Bytes>> on_announce(PeerId from, Bytes request);
    Task<Result<Bytes>> on_plan(PeerId from, Bytes request);
    Result<void> receive_plan(const PeerId& from, ByteView request);
    Ok check_announcement(const PeerId& from,
                          const consensus::Base& base,
                          const Announce& announce) const;
    Ok check_leaders_member(const consensus::RoundPlan& plan) const;
    Ok check_own_member(const consensus::RoundPlan& plan, const consensus::Base& base);
    Task<void> on_probe(std::unique_ptr<p2p::MessageStream> stream);

    RoundParts& parts_;
    const RoundEnvironment& environment_;
    const Following* following_ = nullptr;
    p2p::Handlers handlers_;
};

}  // namespace dedloc::averaging
