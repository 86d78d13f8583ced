// OrderJudge: which orders a decision changes, and whether there is evidence for that.
//
// The leader puts orders into its decision; a voter votes only for what its own judge finds right,
// so that no leader bans anybody by its word. What a majority certified is followed without a
// judge, as an average is.
//
// Thread: the network thread.

#pragma once
#include <memory>
#include <vector>

#include "dedloc/consensus/ledger.h"
#include "dedloc/runtime/task.h"

namespace dedloc::consensus {

class OrderJudge {
  public:
    virtual ~OrderJudge() = default;
    // The orders of a decision of this peer: those that go on, and those that it has evidence for.
    // `decision` has all but its orders and its next voters.
    virtual std::vector<robust::Order> orders_for(const Base& base, const Decision& decision) = 0;
    // May the decision change orders so? Evidence that is not here is asked of the proposer.
    // Errors: peer_broke_protocol: nothing says so; others: evidence does not come in time.
    virtual Task<Result<void>> check(std::shared_ptr<const Decision> decision,
                                     robust::OrderChanges changes,
                                     PeerId proposer) = 0;
};

// The judge of runs in which nobody gives orders: those that are there go on.
OrderJudge& no_new_orders();

}  // namespace dedloc::consensus
