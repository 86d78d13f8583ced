// Interfaces of signing and checking: the real Ed25519 (identity.h) and the simulator's toy
// (toy_signature.h). Everything above `security` takes these, never a key.
//
// Signed bytes = varint(size of domain) ‖ domain ‖ message: a signature made for one purpose (a
// "domain": "dedloc/vote/1") can never be shown as another's.
//
// Thread: any; implementations are immutable.

#pragma once
#include <string_view>

#include "dedloc/base/bytes.h"
#include "dedloc/base/peer_id.h"

namespace dedloc::security {

class Signer {
  public:
    virtual ~Signer() = default;
    virtual const PeerId& id() const = 0;
    virtual Bytes public_key() const = 0;  // libp2p PublicKey protobuf
    virtual Bytes sign(std::string_view domain, ByteView message) const = 0;
};

class Verifier {
  public:
    virtual ~Verifier() = default;
    // Needs only the id, because an Ed25519 id contains the key. False for ids of other keys.
    virtual bool verify(const PeerId& signer,
                        std::string_view domain,
                        ByteView message,
                        ByteView signature) const = 0;
};

// The bytes that are really signed.
Bytes signed_bytes(std::string_view domain, ByteView message);

}  // namespace dedloc::security
