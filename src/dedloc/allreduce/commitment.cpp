#include "dedloc/allreduce/commitment.h"

#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/security/hash.h"

namespace dedloc::allreduce {
namespace {

// Leaves and nodes begin with other bytes, so that no node can be shown as a part.
constexpr std::uint8_t leaf_mark = 0;
constexpr std::uint8_t node_mark = 1;

Digest leaf_of(const Digest& part) {
    Bytes bytes{leaf_mark};
    base::append(bytes, part.view());
    return security::sha256(bytes);
}

Digest node_of(const Digest& left, const Digest& right) {
    Bytes bytes{node_mark};
    base::append(bytes, left.view());
    base::append(bytes, right.view());
    return security::sha256(bytes);
}

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

MerkleTree::MerkleTree(std::vector<Digest> parts) {
    DEDLOC_CHECK(!parts.empty());
    for (Digest& part : parts) part = leaf_of(part);
    levels_.push_back(std::move(parts));
    while (levels_.back().size() > 1) {
        const std::vector<Digest>& below = levels_.back();
        std::vector<Digest> level;
        for (std::size_t i = 0; i < below.size(); i += 2)
            level.push_back(i + 1 < below.size() ? node_of(below[i], below[i + 1]) : below[i]);
        levels_.push_back(std::move(level));
    }
}

std::vector<Digest> MerkleTree::path(std::size_t part) const {
    std::vector<Digest> path;
    for (const std::vector<Digest>& level : levels_) {
        const std::size_t neighbour = part ^ 1;
        if (neighbour < level.size()) path.push_back(level[neighbour]);
        part /= 2;
    }
    return path;
}

bool is_under(const Digest& root,
              std::size_t place,
              std::size_t count,
              const Digest& part,
              const std::vector<Digest>& path) {
    if (place >= count) return false;
    Digest at = leaf_of(part);
    std::size_t used = 0;
    for (; count > 1; count = (count + 1) / 2, place /= 2) {
        if ((place ^ 1) >= count) continue;  // the last one of an odd level goes up as it is
        if (used == path.size()) return false;
        const Digest& neighbour = path[used++];
        at = place % 2 == 0 ? node_of(at, neighbour) : node_of(neighbour, at);
    }
    return used == path.size() && at == root;
}

}  // namespace dedloc::allreduce
