// SIMULATION ONLY. Signatures that cost about a microsecond and protect nothing: whoever knows an
// id can sign as it. They let ten thousand simulated peers run the real protocol code, where
// 150 µs for each Ed25519 signature would be all that the simulator does.
//
// Toy signatures still catch honest mistakes: another domain, message or signer does not verify. A
// simulated attacker must therefore be written not to forge, rather than prevented from it.
//
// Thread: any. Cost: one SHA-256 over the message.

#pragma once
#include <cstdint>

#include "dedloc/security/signer.h"

namespace dedloc::security {

// A well-formed Ed25519-like id (identity multihash) whose "key" is a hash of the seed.
PeerId toy_peer_id(std::uint64_t seed);

class ToySigner final : public Signer {
  public:
    explicit ToySigner(std::uint64_t seed) : id_(toy_peer_id(seed)) {}

    const PeerId& id() const override { return id_; }
    Bytes public_key() const override;
    Bytes sign(std::string_view domain, ByteView message) const override;

  private:
    PeerId id_;
};

class ToyVerifier final : public Verifier {
  public:
    bool verify(const PeerId& signer,
                std::string_view domain,
                ByteView message,
                ByteView signature) const override;
};

}  // namespace dedloc::security
