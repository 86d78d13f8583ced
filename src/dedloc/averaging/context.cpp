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

}  // namespace dedloc::averaging
