#include "dedloc/consensus/catch_up.h"

#include "dedloc/wire/message.h"

namespace dedloc::consensus {
namespace {

// At first, so that one who sleeps does not keep us from asking the others. Certificates may take
// longer over a slow link that is full: who was late gets twice as long the next time.
constexpr Duration ask_timeout_min = 2s;
constexpr Duration ask_timeout_max = 32s;
constexpr int pages_max = 64;  // of certificates in one catch-up

}  // namespace

Result<Decision> decision_of(ByteView certificate) {
    DEDLOC_TRY(const auto decoded, wire::decode<Certificate>(certificate));
    return wire::decode<Decision>(decoded.decision);
}

Duration CatchUp::timeout_with(const PeerId& peer) const {
    const auto known = timeout_.find(peer);
    return known == timeout_.end() ? ask_timeout_min : known->second;
}

void CatchUp::learn_timeout(const PeerId& peer, Duration next) {
    if (next <= ask_timeout_min)
        timeout_.erase(peer);
    else
        timeout_[peer] = std::min(next, ask_timeout_max);
}

Task<Result<CertificatesReply>> CatchUp::ask(PeerId peer,
                                             CertificatesRequest request,
                                             TimePoint deadline) {
    Bytes bytes = wire::encode(request);
    const TimePoint asked = clock_.now();
    const Duration timeout = timeout_with(peer);
    const TimePoint until = std::min(deadline, asked + timeout);
    auto answer = co_await host_.call(peer, certificates_method, std::move(bytes), until);
    const bool late = !answer && answer.error().kind() == ErrorKind::timeout;
    learn_timeout(peer, late ? timeout * 2 : (clock_.now() - asked) * 2);
    if (!answer) co_return std::move(answer).error();
    co_return wire::decode<CertificatesReply>(*answer);
}

Task<Result<bool>> CatchUp::follow_chain(PeerId peer) {
    for (int page = 0; page < pages_max; ++page) {
        CertificatesRequest request;
        request.previous = ledger_.base().previous;
        auto reply = co_await ask(peer, request, TimePoint::never());
        if (!reply) co_return std::move(reply).error();
        bool advanced = false;
        for (const Bytes& certificate : reply->certificates) {
            const auto accepted = ledger_.accept(certificate);
            if (!accepted) break;
            advanced = advanced || *accepted;
        }
        if (advanced || ledger_.base().previous != request.previous) continue;
        co_return reply->known && reply->certificates.empty();
    }
    co_return false;
}

Task<Result<Bytes>> CatchUp::newest_certificate(PeerId peer, TimePoint deadline) {
    CertificatesRequest request;
    request.only_latest = true;
    auto reply = co_await ask(peer, request, deadline);
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

}  // namespace dedloc::consensus
