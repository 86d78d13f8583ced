// A Merkle tree over digests: its root stands for all of them, and a path of some 30 hashes shows
// that one of them is under it, and where.
//
// Leaves and nodes are hashed apart; the last one of an odd level goes up as it is.
//
// Source: RFC 6962. Cost: two hashes a leaf; 64 bytes a leaf while it is there. Thread: any; pure.

#pragma once
#include <vector>

#include "dedloc/base/bytes.h"

namespace dedloc::security {

class MerkleTree {
  public:
    // At least one.
    explicit MerkleTree(std::vector<Digest> parts);

    const Digest& root() const { return levels_.back().front(); }
    // From the leaf to the root: the neighbours, where there are any.
    std::vector<Digest> path(std::size_t part) const;

  private:
    std::vector<std::vector<Digest>> levels_;
};

// Is `part`, one of `count`, the one that `root` stands for at this place?
bool is_under(const Digest& root,
              std::size_t place,
              std::size_t count,
              const Digest& part,
              const std::vector<Digest>& path);

}  // namespace dedloc::security
