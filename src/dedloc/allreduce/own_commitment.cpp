#include "dedloc/allreduce/own_commitment.h"

#include "dedloc/robust/draw.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/hash_list.h"

namespace dedloc::allreduce {

Digest own_nonce(const security::Signer& signer, const Digest& plan) {
    return security::sha256(signer.sign("dedloc-nonce", plan.view()));
}

Task<std::shared_ptr<const OwnCommitment>> commit_own(Transfer& transfer) {
    std::vector<SharedBytes> encoded;
    for (std::uint32_t part = 0; part < transfer.plan.parts.size(); ++part) {
        if (!transfer.input) co_return nullptr;  // the step is decided
        SharedBytes one = co_await encode_own(transfer, part);
        encoded.push_back(std::move(one));
    }
    auto work = [&workers = transfer.environment.node.workers, encoded] {
        std::vector<Digest> digests(encoded.size());
        workers.parallel_for(encoded.size(), [&](std::size_t part) {
            digests[part] = security::hash_list(*encoded[part]);
        });
        return MerkleTree(std::move(digests));
    };
    MerkleTree tree = co_await transfer.environment.node.workers.run(std::move(work));
    const security::Signer& signer = transfer.environment.signer;
    const Digest nonce = own_nonce(signer, transfer.digest);
    const Digest nonce_hash =
        robust::nonce_hash(&security::sha256, transfer.digest, *transfer.me, nonce);
    Commitment commitment = sign_commitment(signer, transfer.digest, tree.root(), nonce_hash);
    co_return std::make_shared<const OwnCommitment>(
        OwnCommitment{std::move(encoded), std::move(tree), nonce, std::move(commitment)});
}

}  // namespace dedloc::allreduce
