#include "dedloc/averaging/catch_up.h"

#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

constexpr Duration ask_patience = 2s;
constexpr int pages_max = 64;  // of certificates in one catch-up

Task<Result<CertificatesReply>> ask(RoundContext& context,
                                    PeerId peer,
                                    CertificatesRequest request,
                                    TimePoint deadline) {
    Bytes bytes = wire::encode(request);
    auto answer = co_await context.host.call(peer, certificates_method, std::move(bytes), deadline);
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
        const TimePoint deadline = context.now() + ask_patience;
        auto reply = co_await ask(context, peer, request, deadline);
        if (!reply) co_return std::move(reply).error();
        bool advanced = false;
        for (const Bytes& certificate : reply->certificates) {
            const auto accepted = context.ledger.accept(certificate);
            if (!accepted) break;
            advanced = advanced || *accepted;
        }
        if (!advanced) co_return reply->known && reply->certificates.empty();
    }
    co_return false;
}

Task<Result<Bytes>> newest_certificate(RoundContext& context, PeerId peer, TimePoint deadline) {
    CertificatesRequest request;
    request.only_latest = true;
    const TimePoint until = std::min(deadline, context.now() + ask_patience);
    auto reply = co_await ask(context, peer, request, until);
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
