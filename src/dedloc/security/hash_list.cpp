#include "dedloc/security/hash_list.h"

#include <algorithm>
#include <vector>

#include "dedloc/base/check.h"
#include "dedloc/security/hash.h"

namespace dedloc::security {

static_assert(sizeof(Digest) == 32, "digests in a row are hashed as they lie");

namespace {

// Lanes work as long for one block as for sixteen; for so few OpenSSL is faster.
constexpr std::size_t lanes_max = 16;
constexpr std::size_t worth_lanes = 8;

std::size_t count_for_lanes(std::size_t blocks) {
    const std::size_t left = blocks % lanes_max;
    return left < worth_lanes ? blocks - left : blocks;
}

}  // namespace

Digest hash_list(ByteView bytes) {
    std::vector<Digest> digests((bytes.size() + hash_block_bytes - 1) / hash_block_bytes);
    std::size_t count = count_for_lanes(digests.size());
    std::size_t size = std::min(count * hash_block_bytes, bytes.size());
    const std::span<Digest> first = std::span(digests).first(count);
    if (!hash_blocks_by_vectors(bytes.first(size), first)) count = size = 0;
    hash_blocks_by_openssl(bytes.subspan(size), std::span(digests).subspan(count));
    return sha256(
        {reinterpret_cast<const std::uint8_t*>(digests.data()), digests.size() * sizeof(Digest)});
}

void hash_blocks_by_openssl(ByteView bytes, std::span<Digest> digests) {
    for (Digest& digest : digests) {
        const ByteView block = bytes.first(std::min(hash_block_bytes, bytes.size()));
        digest = sha256(block);
        bytes = bytes.subspan(block.size());
    }
    DEDLOC_CHECK(bytes.empty());
}

}  // namespace dedloc::security
