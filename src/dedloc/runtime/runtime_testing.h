// Tests on a real loop wait with these, and take a network that is like another but for what a test
// changes. For tests only.

#pragma once
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/network.h"
#include "dedloc/runtime/suspend.h"

namespace dedloc::runtime {

// Always passes through the loop, however late this machine is: what was posted before has run.
inline Task<void> a_moment(Clock& clock) {
    std::shared_ptr<Parked> sleeper;
    const TimePoint soon = clock.now() + 2ms;
    clock.call_at(soon, [&sleeper] { sleeper->resume(); });
    auto start = [&sleeper](std::shared_ptr<Parked> parked) { sleeper = std::move(parked); };
    co_await park(start);
}

class NetworkLike : public Network {
  public:
    explicit NetworkLike(Network& model) : model_(model) {}
    Task<Result<std::unique_ptr<Connection>>> connect(SocketAddress address,
                                                      TimePoint deadline) override {
        return model_.connect(std::move(address), deadline);
    }
    Result<std::unique_ptr<Listener>> listen(const SocketAddress& address) override {
        return model_.listen(address);
    }
    std::vector<std::string> interface_addresses() const override {
        return model_.interface_addresses();
    }

  protected:
    Network& model_;
};

}  // namespace dedloc::runtime
