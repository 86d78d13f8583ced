#include "dedloc/collab/expert_service.h"

#include "dedloc/runtime/real.h"

namespace dedloc::collab {

namespace {

Task<Result<void>> hand_over(experts::ExpertHost& host, TimePoint deadline) {
    co_await host.leave(deadline);
    co_return Result<void>();
}

}  // namespace

ExpertService::ExpertService(const Node& node,
                             experts::ExpertFactory factory,
                             experts::HostOptions options,
                             experts::HostListener listener)
    : node_(node), device_(runtime::real_workers(node.environment().executor, 1)) {
    node_.run_on_network_thread([&] {
        DEDLOC_CHECK(node_.dht() != nullptr, "join_table() before experts are served");
        host_ = std::make_unique<experts::ExpertHost>(node_.environment(),
                                                      node_.host(),
                                                      *node_.dht(),
                                                      node_.signer(),
                                                      *device_,
                                                      std::move(factory),
                                                      std::move(options),
                                                      std::move(listener));
    });
}

ExpertService::~ExpertService() = default;

void ExpertService::start() {
    node_.run_on_network_thread([this] { host_->start(); });
}

void ExpertService::leave(Duration grace_period) {
    const TimePoint deadline = node_.clock().now() + grace_period;
    (void)node_.call("hand over experts", hand_over(*host_, deadline));
}

ExpertReport ExpertService::report() const {
    return node_.run_on_network_thread([this] {
        ExpertReport report;
        const experts::Batcher& batcher = host_->server().batcher();
        report.serves = batcher.uids();
        for (const std::string& uid : report.serves) report.bytes += batcher.find(uid)->bytes();
        report.keeps = host_->kept();
        report.wait_s = to_seconds(batcher.expected_wait());
        report.calls = batcher.counts();
        report.requests = host_->server().counts();
        report.host = host_->counts();
        report.grid = host_->grid();
        report.clock_difference_s = node_.dht()->clock_difference_s();
        report.members = batcher.members();
        return report;
    });
}

Task<void> ExpertService::stop() { co_await host_->stop(); }

}  // namespace dedloc::collab
