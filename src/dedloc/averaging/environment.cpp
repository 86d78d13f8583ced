#include "dedloc/averaging/environment.h"

namespace dedloc::averaging {

links::BandwidthProbeOptions probe_options(const RoundEnvironment& environment,
                                           std::function<bool()> idle) {
    const RoundOptions& round = environment.options;
    links::BandwidthProbeOptions options;
    options.vector_bytes = round.element_bytes() * static_cast<double>(round.vector_count);
    options.rate_unknown = round.rate_unknown;
    options.granted_is_true = round.granted_is_true;
    options.idle = std::move(idle);
    options.partners = [roster = &environment.roster] { return roster->live_trainers(); };
    options.uplink_of = [roster = &environment.roster](const PeerId& peer) {
        return roster->upload_bytes_per_s(peer);
    };
    return options;
}

consensus::ConsensusEnvironment consensus_environment(const RoundEnvironment& environment,
                                                      consensus::PeerScore& scores,
                                                      const links::Timeouts& timeouts,
                                                      consensus::Averages& averages,
                                                      events::Complaints& complaints,
                                                      consensus::OrderJudge& judge) {
    const RoundOptions& options = environment.options;
    return {.node = environment.node,
            .host = environment.host,
            .signer = environment.signer,
            .verifier = environment.verifier,
            .ledger = environment.ledger,
            .scores = scores,
            .timeouts = timeouts,
            .electorate = environment.roster,
            .averages = averages,
            .listener = environment.listener,
            .teller = environment.teller,
            .complaints = complaints,
            .options = {options.quorum_timeout, options.announce_interval, options.bugs},
            .judge = judge};
}

allreduce::TransferEnvironment transfer_environment(const RoundEnvironment& environment,
                                                    const consensus::PeerScore& scores,
                                                    links::Timeouts& timeouts,
                                                    events::Complaints& complaints) {
    allreduce::TransferOptions options = environment.options;
    options.sum_by_arrival = environment.options.bugs.sum_by_arrival;
    const consensus::Ledger* const ledger = &environment.ledger;
    return {.node = environment.node,
            .host = environment.host,
            .signer = environment.signer,
            .verifier = environment.verifier,
            .parts = environment.parts,
            .timeouts = timeouts,
            .teller = environment.teller,
            .complaints = complaints,
            .options = std::move(options),
            .open_step =
                [ledger] {
                    const consensus::Base& base = ledger->base();
                    return allreduce::OpenStep{base.previous, base.instance.step};
                },
            .is_waited_for =
                [scores = &scores](const PeerId& peer) { return scores->is_waited_for(peer); }};
}

}  // namespace dedloc::averaging
