// OwnCommitment: all parts of this member's contribution as they travel in one robust round, and
// what it committed to with them.
//
// Cost: the vector is encoded and hashed once; what is not fp32 is kept encoded until the step is
// decided. Thread: the network thread; the work on workers.

#pragma once
#include <memory>
#include <vector>

#include "dedloc/allreduce/commitment.h"
#include "dedloc/allreduce/transfer.h"

namespace dedloc::allreduce {

struct OwnCommitment {
    std::vector<SharedBytes> encoded;  // by part
    MerkleTree tree;
    Digest nonce;  // to be revealed when every average is here
    Commitment commitment;
};

// Secret until it is revealed, and always the same for one plan: a process that begins the round
// once more says nothing else than before.
Digest own_nonce(const security::Signer& signer, const Digest& plan);

// Null: the step was decided meanwhile.
Task<std::shared_ptr<const OwnCommitment>> commit_own(Transfer& transfer);

}  // namespace dedloc::allreduce
