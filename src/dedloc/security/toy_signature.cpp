#include "dedloc/security/toy_signature.h"

#include "dedloc/base/random.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/identity.h"

namespace dedloc::security {
namespace {

constexpr std::size_t toy_secret_bytes = 32;

// The "secret" of an id: mixed from it, so that no table of secrets is needed.
void put_secret(Bytes& out, const PeerId& id) {
    std::uint64_t word = 0x746f79207369676e;
    for (const std::uint8_t byte : id.bytes()) word = (word ^ byte) * 0x100000001b3;
    for (std::size_t i = 0; i < toy_secret_bytes / 8; ++i)
        base::put_u64_le(out, word = base::mix64(word));
}

Digest toy_signature(const PeerId& id, std::string_view domain, ByteView message) {
    Bytes bytes;
    bytes.reserve(toy_secret_bytes + 8 + domain.size() + message.size());
    put_secret(bytes, id);
    base::put_u64_le(bytes, domain.size());
    base::append(bytes, as_bytes(domain));
    base::append(bytes, message);
    return sha256(bytes);
}

}  // namespace

PeerId toy_peer_id(std::uint64_t seed) {
    Bytes text = to_bytes("dedloc toy key");
    base::put_u64_le(text, seed);
    Bytes protobuf = {0x08, static_cast<std::uint8_t>(KeyType::ed25519), 0x12, ed25519_key_bytes};
    base::append(protobuf, sha256(text).view());
    return peer_id_of(protobuf);
}

Bytes ToySigner::public_key() const { return to_bytes(id_.bytes().subspan(2)); }

Bytes ToySigner::sign(std::string_view domain, ByteView message) const {
    return to_bytes(toy_signature(id_, domain, message).view());
}

bool ToyVerifier::verify(const PeerId& signer,
                         std::string_view domain,
                         ByteView message,
                         ByteView signature) const {
    return base::equal(toy_signature(signer, domain, message).view(), signature);
}

}  // namespace dedloc::security
