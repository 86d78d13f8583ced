#include "dedloc/collab/aggregator_backend.h"

#include <algorithm>
#include <cmath>

#include "dedloc/collab/round_options.h"
#include "dedloc/replica/chain_follower.h"

namespace dedloc::collab {

AggregatorBackend::AggregatorBackend(BackendContext context)
    : context_(std::move(context)),
      roster_(context_.membership),
      ledger_(context_.verifier,
              std::max<std::size_t>(context_.options.kept_steps, 4),
              context_.planted.bugs),
      parts_(kept_bytes(context_.options)) {
    if (checks_newcomers(context_.options.run)) ledger_.let_newcomers_weigh_nothing();
    ledger_.protect(protection_rules(context_.options.run));
    aggregator_ = std::make_unique<averaging::Aggregator>(
        round_environment(context_, ledger_, parts_, roster_, *this, context_.judge));
}

Task<Result<void>> AggregatorBackend::join(TimePoint) {
    ledger_.on_decision([this](const consensus::Link& link) {
        on_decision(link);  // counts the parts while the round is still known
        aggregator_->decided(link);
    });
    aggregator_->start();
    context_.teller.tell(events::Joined{}, {}, "offering to reduce parts");
    co_return Result<void>();
}

Task<void> AggregatorBackend::part(TimePoint deadline) { co_await aggregator_->leave(deadline); }

Task<void> AggregatorBackend::stop() { co_await aggregator_->stop(); }

std::optional<Reached> AggregatorBackend::reached() const {
    if (!ledger_.started()) return std::nullopt;
    const consensus::Base& base = ledger_.base();
    return Reached{.step = base.instance.step, .samples = std::floor(base.branch_samples)};
}

void AggregatorBackend::set_caps(double upload_max, double download_max) {
    aggregator_->set_caps(upload_max, download_max);
}

// A trainer that has steps that we know no certificate of, or more samples on another branch, is
// asked.
void AggregatorBackend::on_status(const membership::Status&, const membership::Status& now) {
    if (!ledger_.started() || now.role != membership::Role::trainer || now.branch.is_zero()) return;
    const consensus::Base& base = ledger_.base();
    const bool elsewhere = now.branch != base.instance.branch;
    if (replica::is_ahead(now, base) || (elsewhere && now.branch_samples >= base.branch_samples))
        aggregator_->inspect(now.peer);
}

void AggregatorBackend::on_decision(const consensus::Link& link) {
    context_.listener.certified(/*new_branch=*/false);
    const consensus::Decision& decision = link.decision;
    if (!link.plan) return;
    const consensus::RoundPlan& plan = *link.plan;
    std::size_t owned = 0;
    std::uint64_t elements = 0;
    for (std::size_t i = 0; i < decision.parts.size() && i < plan.parts.size(); ++i) {
        const std::uint32_t owner = decision.parts[i].owner;
        if (owner >= plan.members.size() || plan.members[owner].peer != context_.host.id())
            continue;
        ++owned;
        elements += plan.parts[i].count;
    }
    if (owned == 0) return;
    const double share =
        static_cast<double>(elements) / static_cast<double>(consensus::moved_range(plan).count);
    const events::PartsReduced reduced{.step = decision.instance.step + 1,
                                       .parts = owned,
                                       .share = share,
                                       .memory_bytes_most = aggregator_->work().memory_most};
    context_.teller.tell(reduced,
                         {},
                         fmt::format("step {}: reduced {} of {} parts, {:.0f} % of the vector",
                                     reduced.step,
                                     owned,
                                     decision.parts.size(),
                                     share * 100));
}

void AggregatorBackend::describe(membership::Status& status) const {
    status.upload_bytes_per_s = aggregator_->upload_bytes_per_s();
    status.download_bytes_per_s = aggregator_->download_bytes_per_s();
    if (status.phase == membership::Phase::waiting && aggregator_->busy())
        status.phase = membership::Phase::averaging;
    if (!ledger_.started()) return;
    const consensus::Base& base = ledger_.base();
    status.branch = base.instance.branch;
    status.step = base.instance.step;
    status.certificate = base.previous;
    status.branch_samples = base.branch_samples;
}

}  // namespace dedloc::collab
