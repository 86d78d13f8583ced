#include "dedloc/security/remembering_verifier.h"

#include <utility>

#include "dedloc/security/hash.h"
#include "dedloc/wire/varint.h"

namespace dedloc::security {
namespace {

// Each piece with its length in front, so that no two checks have the same bytes.
Digest name_of(const PeerId& signer,
               std::string_view domain,
               ByteView message,
               ByteView signature) {
    Bytes bytes;
    for (const ByteView piece : {ByteView(signer.bytes()), as_bytes(domain), message, signature}) {
        wire::put_varint(bytes, piece.size());
        base::append(bytes, piece);
    }
    return sha256(bytes);
}

}  // namespace

bool RememberingVerifier::verify(const PeerId& signer,
                                 std::string_view domain,
                                 ByteView message,
                                 ByteView signature) const {
    const Digest name = name_of(signer, domain, message, signature);
    {
        const std::lock_guard lock(mutex_);
        if (newer_.contains(name) || older_.contains(name)) return true;
    }
    if (!verifier_.verify(signer, domain, message, signature)) return false;
    remember(name);
    return true;
}

void RememberingVerifier::remember(const PeerId& signer,
                                   std::string_view domain,
                                   ByteView message,
                                   ByteView signature) {
    remember(name_of(signer, domain, message, signature));
}

void RememberingVerifier::remember(const Digest& name) const {
    const std::lock_guard lock(mutex_);
    newer_.insert(name);
    if (newer_.size() >= remembered_max) older_ = std::exchange(newer_, {});
}

Bytes RememberingSigner::sign(std::string_view domain, ByteView message) const {
    Bytes signature = signer_.sign(domain, message);
    verifier_.remember(signer_.id(), domain, message, signature);
    return signature;
}

}  // namespace dedloc::security
