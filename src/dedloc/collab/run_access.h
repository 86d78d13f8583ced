// RunAccess: who may take part, as one collaboration has it: by the run's secret, or by invitation;
// then with the service that lets in, renews tokens and obeys revocations.
//
// Thread: the network thread. Lifetime: stop() before destruction.

#pragma once
#include <memory>
#include <string>

#include "dedloc/admission/admission_service.h"
#include "dedloc/admission/revocation_judge.h"
#include "dedloc/collab/collaboration.h"
#include "dedloc/events/teller.h"
#include "dedloc/membership/membership.h"

namespace dedloc::collab {

class RunAccess {
  public:
    RunAccess(runtime::Node node,
              p2p::Host& host,
              const security::Signer& signer,
              const security::Verifier& verifier,
              const CollaborationOptions& options,
              events::Teller& teller);

    // Made after this, as it asks the authorizer.
    void is_for(membership::Membership& membership) { membership_ = &membership; }
    const std::shared_ptr<membership::Authorizer>& authorizer() const { return authorizer_; }
    consensus::OrderJudge& judge() const;

    // Errors: as admission::Issuer.
    Ok start(const admission::Admitted& admitted);
    Task<void> stop();

    // The person who owns this peer; empty: not known.
    std::string person(const PeerId& peer) const { return authorizer_->person(peer); }
    void greet(const PeerId& peer);
    // Puts out whom the orders of this decision revoke; null: none is known.
    void obey(const consensus::Base* base);
    // This peer lets others in.
    bool lets_in() const { return service_ && service_->lets_in(); }
    // A member says that another process takes part with this peer's key.
    void key_is_used_twice(const Error& why);

  private:
    admission::AdmissionService::Callbacks callbacks(const security::Signer& signer,
                                                     const security::Verifier& verifier);
    std::vector<PeerId> live(bool organisers_only) const;

    runtime::Node node_;
    const Digest run_;
    events::Teller& teller_;
    membership::Membership* membership_ = nullptr;
    std::shared_ptr<membership::Authorizer> authorizer_;
    std::unique_ptr<admission::AdmissionService> service_;  // null: the run lets in by its secret
    std::unique_ptr<admission::RevocationJudge> judge_;     // null with it
    TimePoint key_told_again_{};                            // not before
};

}  // namespace dedloc::collab
