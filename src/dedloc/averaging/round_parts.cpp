#include "dedloc/averaging/round_parts.h"

namespace dedloc::averaging {

Announce own_announcement(const RoundParts& parts, const consensus::Base& base) {
    Announce announce;
    announce.instance = base.instance;
    announce.previous = base.previous;
    announce.state = base.state.value_or(Digest{});
    announce.incarnation = parts.acceptor.incarnation();
    if (parts.open.input()) announce.input = parts.open.input()->input;
    announce.upload_bytes_per_s = parts.link.announced_upload();
    announce.download_bytes_per_s = parts.link.announced_download();
    announce.dialable = !parts.environment.host.addresses().empty();
    announce.leaving = parts.open.leaving();
    announce.checks = parts.environment.options.checks;
    announce.unreachable =
        parts.exchanges.state().unreachable.list(parts.environment.host, parts.environment.now());
    return announce;
}

std::shared_ptr<allreduce::Exchange> begin_exchange(RoundParts& parts,
                                                    consensus::RoundPlan plan,
                                                    const Digest& digest) {
    auto exchange = parts.exchanges.begin(std::move(plan), digest, parts.open.input());
    if (parts.on_exchange) parts.on_exchange(exchange);
    parts.open.round_begins();
    parts.open.changed().pulse();
    return exchange;
}

Task<void> send(const RoundParts& parts, PeerId peer, std::string method, Bytes message) {
    const TimePoint deadline = parts.environment.now() + parts.timeouts.answer();
    (void)co_await parts.environment.host.call(peer, method, std::move(message), deadline);
}

}  // namespace dedloc::averaging
