#include "dedloc/state/manifest.h"

#include <algorithm>
#include <bit>

#include "dedloc/runtime/together.h"
#include "dedloc/security/hash.h"

namespace dedloc::state {

namespace {

constexpr std::uint8_t leaf_prefix = 0x00;

Digest hash_with_prefix(std::uint8_t prefix, ByteView first, ByteView second = {}) {
    security::Sha256 hash;
    return hash.update(ByteView(&prefix, 1)).update(first).update(second).finish();
}

std::uint64_t chunks_for(std::uint64_t bytes) { return (bytes + chunk_bytes - 1) / chunk_bytes; }

}  // namespace

Digest leaf_hash(ByteView chunk) { return hash_with_prefix(leaf_prefix, chunk); }

Digest tree_hash(std::span<const Digest> leaves) {
    DEDLOC_CHECK(!leaves.empty());
    if (leaves.size() == 1) return leaves[0];
    const std::size_t left = std::bit_floor(leaves.size() - 1);
    const Digest a = tree_hash(leaves.first(left));
    const Digest b = tree_hash(leaves.subspan(left));
    return hash_with_prefix(0x01, a.view(), b.view());
}

Digest root_hash(std::uint64_t bytes, std::span<const Digest> leaves) {
    Bytes size;
    base::put_u64_le(size, bytes);
    const Digest tree = tree_hash(leaves);
    return hash_with_prefix(0x02, size, tree.view());
}

std::size_t Manifest::chunk_size(std::size_t index) const {
    DEDLOC_CHECK(index < chunks.size());
    return static_cast<std::size_t>(
        std::min<std::uint64_t>(chunk_bytes, bytes - chunk_offset(index)));
}

bool Manifest::holds(std::size_t index, ByteView chunk) const {
    return chunk.size() == chunk_size(index) && leaf_hash(chunk) == chunks[index];
}

Ok Manifest::verify(const Digest& expected_root) const {
    if (bytes == 0 || bytes > state_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "the manifest announces {} bytes, 1 to {} are allowed",
                          bytes,
                          state_bytes_max);
    if (chunks.size() != chunks_for(bytes))
        return make_error(ErrorKind::bad_input,
                          "the manifest has {} chunks for {} bytes, {} are needed",
                          chunks.size(),
                          bytes,
                          chunks_for(bytes));
    if (root != expected_root || root_hash(bytes, chunks) != expected_root)
        return make_error(ErrorKind::bad_input,
                          "the manifest does not belong to state {}",
                          expected_root.short_hex());
    return {};
}

Bytes chunk(const Snapshot& snapshot, std::size_t index) {
    const std::uint64_t offset = index * std::uint64_t{chunk_bytes};
    DEDLOC_CHECK(offset < snapshot.bytes_size());
    const std::uint64_t left = snapshot.bytes_size() - offset;
    Bytes out(static_cast<std::size_t>(std::min<std::uint64_t>(chunk_bytes, left)));
    snapshot.read(offset, out);
    return out;
}

namespace {

// Hashes chunks first, first + stride, … into `leaves`, where they lie: one worker's share.
void hash_share(const Snapshot& snapshot,
                std::vector<Digest>& leaves,
                std::size_t first,
                std::size_t stride) {
    for (std::size_t i = first; i < leaves.size(); i += stride) {
        const std::uint64_t offset = i * std::uint64_t{chunk_bytes};
        const std::uint64_t left = snapshot.bytes_size() - offset;
        security::Sha256 hash;
        hash.update(ByteView(&leaf_prefix, 1));
        snapshot.visit(offset, std::min<std::uint64_t>(chunk_bytes, left), [&hash](ByteView piece) {
            hash.update(piece);
        });
        leaves[i] = hash.finish();
    }
}

Manifest finish_manifest(const Snapshot& snapshot, std::vector<Digest> leaves) {
    Manifest manifest;
    manifest.bytes = snapshot.bytes_size();
    manifest.chunks = std::move(leaves);
    manifest.root = root_hash(manifest.bytes, manifest.chunks);
    return manifest;
}

}  // namespace

Manifest make_manifest(const Snapshot& snapshot) {
    std::vector<Digest> leaves(chunks_for(snapshot.bytes_size()));
    hash_share(snapshot, leaves, 0, 1);
    return finish_manifest(snapshot, std::move(leaves));
}

Task<std::shared_ptr<const PublishedState>> publish(runtime::Workers& workers,
                                                    std::shared_ptr<const Snapshot> snapshot) {
    // Shared, because a worker's job outlives this coroutine if it is cancelled.
    auto leaves = std::make_shared<std::vector<Digest>>(chunks_for(snapshot->bytes_size()));
    const std::size_t shares = std::clamp<std::size_t>(workers.threads_count(), 1, leaves->size());
    std::vector<Task<void>> jobs;
    for (std::size_t share = 0; share < shares; ++share) {
        std::function<void()> job = [snapshot, leaves, share, shares] {
            hash_share(*snapshot, *leaves, share, shares);
        };
        jobs.push_back(workers.run_erased(std::move(job)));
    }
    co_await runtime::all_of(std::move(jobs));
    auto published = std::make_shared<PublishedState>();
    published->manifest = finish_manifest(*snapshot, std::move(*leaves));
    published->snapshot = std::move(snapshot);
    co_return std::shared_ptr<const PublishedState>(std::move(published));
}

}  // namespace dedloc::state
