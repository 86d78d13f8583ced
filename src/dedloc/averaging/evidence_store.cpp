#include "dedloc/averaging/evidence_store.h"

#include <algorithm>

#include "dedloc/averaging/evidence.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

constexpr std::size_t piece_bytes = 1u << 20;  // of evidence, in one answer

}  // namespace

void EvidenceStore::start() {
    handlers_.on_call(evidence_method, [this](PeerId from, Bytes request) {
        return on_evidence(from, std::move(request));
    });
}

Digest EvidenceStore::put(Bytes bytes) {
    const Digest digest = security::sha256(bytes);
    if (bytes.size() > evidence_bytes_max || kept_.contains(digest)) return digest;
    bytes_ += bytes.size();
    order_.push_back(digest);
    kept_.emplace(digest, SharedBytes(std::move(bytes)));
    while (bytes_ > evidence_store_bytes_max) {
        bytes_ -= kept_.at(order_.front()).size();
        kept_.erase(order_.front());
        order_.pop_front();
    }
    return digest;
}

SharedBytes EvidenceStore::find(const Digest& digest) const {
    const auto found = kept_.find(digest);
    return found == kept_.end() ? SharedBytes() : found->second;
}

Task<Result<Bytes>> EvidenceStore::on_evidence(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(environment_.gate(from));
    const auto ask = wire::decode<AskEvidence>(request);
    if (!ask) co_return consensus::unreadable("question for evidence");
    const SharedBytes whole = find(ask->digest);
    if (!whole || ask->offset >= whole.size())
        co_return make_error(ErrorKind::not_found, "no such evidence here");
    const auto offset = static_cast<std::size_t>(ask->offset);
    EvidencePiece piece;
    piece.size = whole.size();
    piece.piece = to_bytes(whole->subspan(offset, std::min(piece_bytes, whole.size() - offset)));
    co_return wire::encode(piece);
}

Task<Result<SharedBytes>> EvidenceStore::fetch(PeerId from, Digest digest, TimePoint deadline) {
    if (const SharedBytes here = find(digest)) co_return here;
    Bytes whole;
    for (;;) {
        AskEvidence ask{digest, whole.size()};
        Bytes request = wire::encode(ask);
        auto answer =
            co_await environment_.host.call(from, evidence_method, std::move(request), deadline);
        if (!answer) co_return std::move(answer).error();
        auto piece = wire::decode<EvidencePiece>(*answer);
        if (!piece || piece->piece.empty() || piece->size > evidence_bytes_max ||
            whole.size() + piece->piece.size() > piece->size)
            co_return consensus::unreadable("piece of evidence");
        base::append(whole, piece->piece);
        if (whole.size() == piece->size) break;
    }
    if (security::sha256(whole) != digest)
        co_return make_error(ErrorKind::peer_broke_protocol, "evidence that is another");
    (void)put(std::move(whole));
    co_return find(digest);
}

}  // namespace dedloc::averaging
