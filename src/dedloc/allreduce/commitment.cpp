#include "dedloc/allreduce/commitment.h"

#include "dedloc/security/hash.h"

namespace dedloc::allreduce {
namespace {

Bytes signed_text(const Digest& plan, const Digest& root, const Digest& nonce_hash) {
    Bytes bytes = to_bytes(plan.view());
    base::append(bytes, root.view());
    base::append(bytes, nonce_hash.view());
    return bytes;
}

}  // namespace

Commitment sign_commitment(const security::Signer& signer,
                           const Digest& plan,
                           const Digest& root,
                           const Digest& nonce_hash) {
    return {root, nonce_hash, signer.sign(commitment_domain, signed_text(plan, root, nonce_hash))};
}

bool is_signed(const security::Verifier& verifier,
               const PeerId& member,
               const Digest& plan,
               const Commitment& commitment) {
    return verifier.verify(member,
                           commitment_domain,
                           signed_text(plan, commitment.root, commitment.nonce_hash),
                           commitment.signature);
}

Digest digest_of_roots(const std::map<std::uint32_t, Digest>& roots) {
    Bytes bytes;
    for (const auto& [member, root] : roots) {
        base::put_u32_be(bytes, member);
        base::append(bytes, root.view());
    }
    return security::sha256(bytes);
}

}  // namespace dedloc::allreduce
