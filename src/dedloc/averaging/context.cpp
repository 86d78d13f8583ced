#include "dedloc/averaging/context.h"

namespace dedloc::averaging {

links::BandwidthProbeOptions probe_options(RoundContext& context, std::function<bool()> idle) {
    links::BandwidthProbeOptions options;
    options.vector_bytes =
        context.options.element_bytes() * static_cast<double>(context.options.vector_count);
    options.rate_unknown = context.options.rate_unknown;
    options.granted_is_true = context.options.granted_is_true;
    options.idle = std::move(idle);
    options.partners = [&context] { return context.roster.live_trainers(); };
    options.uplink_of = [&context](const PeerId& peer) {
        return context.roster.upload_bytes_per_s(peer);
    };
    return options;
}

consensus::Environment consensus_environment(RoundContext& context,
                                             consensus::Averages& averages,
                                             consensus::Listener& listener) {
    const RoundOptions& options = context.options;
    return {.node = context.node,
            .host = context.host,
            .signer = context.signer,
            .verifier = context.verifier,
            .ledger = context.ledger,
            .scores = context.scores,
            .patience = context.patience,
            .electorate = context.roster,
            .averages = averages,
            .listener = listener,
            .options = {options.quorum_timeout, options.announce_interval, options.bugs}};
}

allreduce::Environment transfer_environment(RoundContext& context, allreduce::Listener& listener) {
    allreduce::Options options = context.options;
    options.sum_by_arrival = context.options.bugs.sum_by_arrival;
    return {.node = context.node,
            .host = context.host,
            .signer = context.signer,
            .verifier = context.verifier,
            .parts = context.parts,
            .patience = context.patience,
            .listener = listener,
            .options = std::move(options),
            .open_step =
                [&context] {
                    const consensus::Base& base = context.ledger.base();
                    return allreduce::OpenStep{base.previous, base.instance.step};
                },
            .is_waited_for =
                [&context](const PeerId& peer) { return context.scores.is_waited_for(peer); }};
}

}  // namespace dedloc::averaging
