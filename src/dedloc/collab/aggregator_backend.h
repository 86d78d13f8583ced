// AggregatorBackend: reduces the parts that plans of native rounds give to this peer. It stands
// where its certificates say: there is no state, and nothing to apply.
//
// Thread: the network thread.

#pragma once
#include <memory>
#include <optional>

#include "dedloc/averaging/aggregator.h"
#include "dedloc/collab/averaging_backend.h"
#include "dedloc/collab/member_roster.h"

namespace dedloc::collab {

class AggregatorBackend final : public AveragingBackend, private averaging::RoundListener {
  public:
    explicit AggregatorBackend(BackendContext context);

    Task<Result<void>> join(TimePoint deadline) override;
    Task<void> part(TimePoint deadline) override;
    Task<void> stop() override;

    const consensus::Ledger* ledger() const override { return &ledger_; }
    std::optional<Reached> reached() const override;

    double upload_bytes_per_s() const override { return aggregator_->upload_bytes_per_s(); }
    double download_bytes_per_s() const override { return aggregator_->download_bytes_per_s(); }
    void set_caps(double upload_max, double download_max) override;

    void on_status(const membership::Status& before, const membership::Status& now) override;
    void describe(membership::Status& status) const override;
    averaging::AggregatorWork work() const override { return aggregator_->work(); }

  private:
    // averaging::RoundListener
    void round_wanted() override {}
    void behind(const PeerId& peer) override { aggregator_->inspect(peer); }
    void voting_for(const consensus::Decision&) override {}

    void on_decision(const consensus::Link& link);

    BackendContext context_;
    MemberRoster roster_;
    consensus::Ledger ledger_;
    allreduce::PartStore parts_;
    std::unique_ptr<averaging::Aggregator> aggregator_;
};

}  // namespace dedloc::collab
