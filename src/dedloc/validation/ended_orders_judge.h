// EndedOrdersJudge: whether orders may end before their time. Probation ends by a new order that
// vouches for the peer, whose evidence the pending orders check; a vouch ends where it is no longer
// needed, or where the peer has erred. A readmission ends by that alone.
//
// New orders that come here are those about persons: another judge's. Thread: the network thread.

#pragma once
#include "dedloc/consensus/order_judge.h"

namespace dedloc::validation {

class EndedOrdersJudge final : public consensus::OrderJudge {
  public:
    // `others`: the judge of orders about persons.
    EndedOrdersJudge(const consensus::Ledger& ledger, consensus::OrderJudge& others)
        : ledger_(ledger), others_(others) {}

    std::vector<robust::Order> orders_for(const consensus::Base& base,
                                          const consensus::Decision& decision) override;
    Task<Result<void>> check(std::shared_ptr<const consensus::Decision> decision,
                             robust::OrderChanges changes,
                             PeerId proposer) override;

  private:
    const consensus::Ledger& ledger_;
    consensus::OrderJudge& others_;
};

}  // namespace dedloc::validation
