// RevocationJudge: puts revocations into decisions, as orders about persons, and votes for such an
// order only where a revocation that the run's authority or a co-organiser signed says the same.
// Evidence of the order is the SHA-256 of the revocation's bytes.
//
// Other kinds of orders are another judge's.
//
// Thread: the network thread.

#pragma once
#include "dedloc/admission/token_authorizer.h"
#include "dedloc/consensus/order_judge.h"
#include "dedloc/p2p/host.h"

namespace dedloc::admission {

class RevocationJudge final : public consensus::OrderJudge {
  public:
    RevocationJudge(p2p::Host& host,
                    std::shared_ptr<TokenAuthorizer> authorizer,
                    consensus::OrderJudge& others)
        : host_(host), authorizer_(std::move(authorizer)), others_(others) {}

    std::vector<robust::Order> orders_for(const consensus::Base& base,
                                          const consensus::Decision& decision) override;
    Task<Result<void>> check(std::shared_ptr<const consensus::Decision> decision,
                             robust::OrderChanges changes,
                             PeerId proposer) override;

  private:
    Task<Result<void>> check_revocation(robust::Order order, PeerId proposer);

    p2p::Host& host_;
    std::shared_ptr<TokenAuthorizer> authorizer_;
    consensus::OrderJudge& others_;
};

}  // namespace dedloc::admission
