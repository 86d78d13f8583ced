#include "dedloc/averaging/catch_up.h"

#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

// At first, so that one who sleeps does not keep us from asking the others. Certificates may take
// longer over a slow line that is full: who was late gets twice as long the next time.
constexpr Duration ask_patience_min = 2s;
constexpr Duration ask_patience_max = 32s;
constexpr int pages_max = 64;  // of certificates in one catch-up

Duration patience_with(const RoundContext& context, const PeerId& peer) {
    const auto known = context.ask_patience.find(peer);
    return known == context.ask_patience.end() ? ask_patience_min : known->second;
}

void learn_patience(RoundContext& context, const PeerId& peer, Duration next) {
    if (next <= ask_patience_min)
        context.ask_patience.erase(peer);
    else
        context.ask_patience[peer] = std::min(next, ask_patience_max);
}

Task<Result<CertificatesReply>> ask(RoundContext& context,
                                    PeerId peer,
                                    CertificatesRequest request,
                                    TimePoint deadline) {
    Bytes bytes = wire::encode(request);
    const TimePoint asked = context.now();
    const Duration patience = patience_with(context, peer);
    const TimePoint until = std::min(deadline, asked + patience);
    auto answer = co_await context.host.call(peer, certificates_method, std::move(bytes), until);
    const bool late = !answer && answer.error().kind() == ErrorKind::timeout;
    learn_patience(context, peer, late ? patience * 2 : (context.now() - asked) * 2);
    if (!answer) co_return std::move(answer).error();
    co_return wire::decode<CertificatesReply>(*answer);
}

}  // namespace

Result<Decision> decision_of(ByteView certificate) {
    DEDLOC_TRY(const auto decoded, wire::decode<Certificate>(certificate));
    return wire::decode<Decision>(decoded.decision);
}

Task<Result<bool>> follow_chain(RoundContext& context, PeerId peer) {
    for (int page = 0; page < pages_max; ++page) {
        CertificatesRequest request;
        request.previous = context.ledger.base().previous;
        auto reply = co_await ask(context, peer, request, TimePoint::never());
        if (!reply) co_return std::move(reply).error();
        bool advanced = false;
        for (const Bytes& certificate : reply->certificates) {
            const auto accepted = context.ledger.accept(certificate);
            if (!accepted) break;
            advanced = advanced || *accepted;
        }
        if (advanced || context.ledger.base().previous != request.previous) continue;
        co_return reply->known && reply->certificates.empty();
    }
    co_return false;
}

Task<Result<Bytes>> newest_certificate(RoundContext& context, PeerId peer, TimePoint deadline) {
    CertificatesRequest request;
    request.only_latest = true;
    auto reply = co_await ask(context, peer, request, deadline);
    if (!reply) co_return std::move(reply).error();
    if (reply->certificates.empty()) co_return Bytes{};
    co_return std::move(reply->certificates.front());
}

bool is_better(const Base& ours, const Decision& theirs) {
    if (theirs.instance.branch == ours.instance.branch) return theirs.number > ours.number;
    if (theirs.branch_samples != ours.branch_samples)
        return theirs.branch_samples > ours.branch_samples;
    return theirs.instance.branch < ours.instance.branch;
}

}  // namespace dedloc::averaging
