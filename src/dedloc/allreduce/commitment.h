// A member of a robust round commits itself to this before anything is drawn: a Merkle root over
// the digests of all its encoded parts, and the hash of a nonce (robust/draw.h), signed for one
// plan. Each part then travels with its path to that root, so that an owner takes nothing else, and
// whoever sees a part later can tell whose it is. Two roots of a member in one plan prove its
// guilt.
//
// Source: RFC 6962 (leaves and nodes hashed apart); Gorbunov et al. 2022, algorithm 1.
// Cost:   one hash of the encoded vector. Thread: any; pure.

#pragma once
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/security/merkle_tree.h"
#include "dedloc/security/signer.h"

namespace dedloc::allreduce {

inline constexpr std::string_view commitment_domain = "dedloc-commitment";
using security::is_under;
using security::MerkleTree;

inline constexpr std::size_t path_max = 13;  // of parts_max leaves

struct Commitment {
    Digest root;
    Digest nonce_hash;
    Bytes signature;

    friend bool operator==(const Commitment&, const Commitment&) = default;
    // Do both commit to the same? Signatures of one text may differ.
    bool says(const Commitment& other) const {
        return root == other.root && nonce_hash == other.nonce_hash;
    }
    DEDLOC_FIELDS(root, nonce_hash, signature)
};

Commitment sign_commitment(const security::Signer& signer,
                           const Digest& plan,
                           const Digest& root,
                           const Digest& nonce_hash);
bool is_signed(const security::Verifier& verifier,
               const PeerId& member,
               const Digest& plan,
               const Commitment& commitment);

// The digest of several members' roots, by their places.
Digest digest_of_roots(const std::map<std::uint32_t, Digest>& roots);

}  // namespace dedloc::allreduce
