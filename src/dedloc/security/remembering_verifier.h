// RememberingVerifier: a signature that was right once is right for ever. A round shows the same
// signatures several times (a part's on arrival, in the proposal, in the certificate), and a check
// costs 0.1 ms where a hash costs a microsecond.
//
// Remembers the SHA-256 of everything a check depends on, successes only, the newest
// `remembered_max` to twice that.
// RememberingSigner: what this process signed itself is right, too; a round shows it that as well.
//
// Thread: any; a mutex guards the memory.

#pragma once
#include <mutex>
#include <set>

#include "dedloc/security/signer.h"

namespace dedloc::security {

class RememberingVerifier final : public Verifier {
  public:
    static constexpr std::size_t remembered_max = 16'384;  // 1.5 MB each generation

    explicit RememberingVerifier(const Verifier& verifier) : verifier_(verifier) {}

    bool verify(const PeerId& signer,
                std::string_view domain,
                ByteView message,
                ByteView signature) const override;

    // The signature is right: the caller has just made it.
    void remember(const PeerId& signer,
                  std::string_view domain,
                  ByteView message,
                  ByteView signature);

  private:
    void remember(const Digest& name) const;

    const Verifier& verifier_;
    mutable std::mutex mutex_;
    mutable std::set<Digest> newer_;
    mutable std::set<Digest> older_;
};

class RememberingSigner final : public Signer {
  public:
    RememberingSigner(const Signer& signer, RememberingVerifier& verifier)
        : signer_(signer), verifier_(verifier) {}

    const PeerId& id() const override { return signer_.id(); }
    Bytes public_key() const override { return signer_.public_key(); }
    Bytes sign(std::string_view domain, ByteView message) const override;

  private:
    const Signer& signer_;
    RememberingVerifier& verifier_;
};

}  // namespace dedloc::security
