// AggregatorBackend: reduces the parts that plans of native rounds give to this peer. It stands
// where its certificates say: there is no state, and nothing to apply.
//
// Thread: the network thread.

#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "dedloc/averaging/aggregator.h"
#include "dedloc/collab/averaging_backend.h"

namespace dedloc::collab {

class AggregatorBackend final : public AveragingBackend,
                                private averaging::Roster,
                                private averaging::RoundListener {
  public:
    explicit AggregatorBackend(BackendContext context);

    Task<Result<void>> join(TimePoint deadline) override;
    Task<void> part(TimePoint deadline) override;
    Task<void> stop() override;

    bool started() const override { return ledger_.started(); }
    std::uint64_t open_step() const override;
    Digest branch() const override { return ledger_.base().instance.branch; }
    std::optional<Reached> reached() const override;

    double upload_bytes_per_s() const override { return aggregator_->upload_bytes_per_s(); }
    double download_bytes_per_s() const override { return aggregator_->download_bytes_per_s(); }
    void set_caps(double upload_max, double download_max) override;

    void on_status(const membership::Status& before, const membership::Status& now) override;
    void describe(membership::Status& status) const override;
    std::optional<run::Anchor> anchor() const override;
    const consensus::Base* base() const override {
        return ledger_.started() ? &ledger_.base() : nullptr;
    }
    Bytes chain() const override { return encoded_tail(ledger_); }
    averaging::AggregatorWork work() const override { return aggregator_->work(); }

  private:
    // averaging::Roster
    std::vector<PeerId> expected(const consensus::Base&) const override { return {}; }
    std::vector<PeerId> live_trainers() const override;
    std::size_t voters_heard_of(const consensus::Base& base) const override;
    bool chain_goes_on(const consensus::Base& base) const override;
    bool allowed(const PeerId& peer) const override;
    double micro_batch_s() const override { return 0; }
    double upload_bytes_per_s(const PeerId& peer) const override;
    Ok check_samples(const PeerId&, const consensus::MemberInput&) const override { return {}; }
    // averaging::RoundListener
    void round_wanted() override {}
    void behind(const PeerId& peer) override { aggregator_->look_at(peer); }
    void voting_for(const consensus::Decision&) override {}

    void on_decision(const consensus::Link& link);

    BackendContext context_;
    consensus::Ledger ledger_;
    allreduce::PartStore parts_;
    std::unique_ptr<averaging::Aggregator> aggregator_;
};

}  // namespace dedloc::collab
