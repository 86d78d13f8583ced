#include "dedloc/collab/averaging_backend.h"

#include "dedloc/collab/aggregator_backend.h"
#include "dedloc/collab/native_backend.h"
#include "dedloc/wire/message.h"

namespace dedloc::collab {
namespace {

constexpr std::size_t chain_tail = 16;

}  // namespace

const consensus::Base* AveragingBackend::base() const {
    const consensus::Ledger* const known = ledger();
    return known != nullptr && known->started() ? &known->base() : nullptr;
}

std::optional<run::Anchor> AveragingBackend::anchor() const {
    const consensus::Base* const newest = base();
    if (newest == nullptr) return std::nullopt;
    return run::Anchor{newest->previous, newest->instance.step};
}

Bytes AveragingBackend::chain() const {
    if (ledger() == nullptr) return {};
    consensus::CertificatesReply tail;
    if (started()) tail.certificates = ledger()->tail(chain_tail);
    return wire::encode(tail);
}

Task<Result<void>> AveragingBackend::host(std::shared_ptr<const state::Snapshot>) {
    co_return Result<void>();
}
Task<Result<void>> AveragingBackend::join(TimePoint) { co_return Result<void>(); }
Task<void> AveragingBackend::part(TimePoint) { co_return; }
Task<void> AveragingBackend::stop() { co_return; }
Task<void> AveragingBackend::average(std::shared_ptr<const allreduce::RoundInput>) { co_return; }
void AveragingBackend::set_caps(double, double) {}
void AveragingBackend::on_status(const membership::Status&, const membership::Status&) {}

Result<std::unique_ptr<AveragingBackend>> make_backend(BackendContext context) {
    switch (context.options.role) {
        case membership::Role::trainer:
            return NativeBackend::make(std::move(context));
        case membership::Role::aggregator:
            return std::unique_ptr<AveragingBackend>(
                std::make_unique<AggregatorBackend>(std::move(context)));
        case membership::Role::observer:
        case membership::Role::relay:
        case membership::Role::expert_server:
            break;
    }
    return std::unique_ptr<AveragingBackend>(std::make_unique<ObserverBackend>());
}

}  // namespace dedloc::collab
