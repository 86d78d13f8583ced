#include "dedloc/consensus/order_judge.h"

namespace dedloc::consensus {
namespace {

class NoNewOrders final : public OrderJudge {
  public:
    std::vector<robust::Order> orders_for(const Base& base, const Decision&) override {
        return carried_orders(base);
    }
    Task<Result<void>> check(std::shared_ptr<const Decision>,
                             robust::OrderChanges changes,
                             PeerId) override {
        if (changes.empty()) co_return Result<void>();
        co_return make_error(ErrorKind::peer_broke_protocol,
                             "a proposal is refused: nobody gives orders in this run");
    }
};

}  // namespace

OrderJudge& no_new_orders() {
    static NoNewOrders judge;  // has no state
    return judge;
}

}  // namespace dedloc::consensus
