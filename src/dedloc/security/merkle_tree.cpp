#include "dedloc/security/merkle_tree.h"

#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/security/hash.h"

namespace dedloc::security {
namespace {

// Leaves and nodes begin with other bytes, so that no node can be shown as a part.
constexpr std::uint8_t merkle_leaf_mark = 0;
constexpr std::uint8_t merkle_node_mark = 1;

Digest leaf_of(const Digest& part) {
    Bytes bytes{merkle_leaf_mark};
    base::append(bytes, part.view());
    return sha256(bytes);
}

Digest node_of(const Digest& left, const Digest& right) {
    Bytes bytes{merkle_node_mark};
    base::append(bytes, left.view());
    base::append(bytes, right.view());
    return sha256(bytes);
}

}  // namespace

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

}  // namespace dedloc::security
