// Manifest: the hashes of a state's chunks, and the one hash over them that names the state.
//
// The canonical bytes of a snapshot are cut into chunks of 1 MiB (the last may be shorter).
//   leaf  = sha256(0x00 ‖ chunk)                node = sha256(0x01 ‖ left ‖ right)
//   tree  = as in RFC 6962 §2.1: the left half is the largest power of two below the count
//   root  = sha256(0x02 ‖ u64 LE bytes ‖ tree)  the state hash; it covers the size too
// Whoever trusts a root can check a manifest from anybody, and then each chunk from anybody.
//
// Cost: one pass of SHA-256 over the state; see manifest_bench.cpp. make_manifest(Workers&…) splits
// the chunks over the worker threads. Errors: bad_input. Thread: any.

#pragma once
#include <memory>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/runtime/workers.h"
#include "dedloc/state/snapshot.h"

namespace dedloc::state {

inline constexpr std::size_t chunk_bytes = 1u << 20;
inline constexpr std::size_t chunks_max = state_bytes_max / chunk_bytes;

Digest leaf_hash(ByteView chunk);
Digest tree_hash(std::span<const Digest> leaves);  // at least one
Digest root_hash(std::uint64_t bytes, std::span<const Digest> leaves);

struct Manifest {
    Digest root;
    std::uint64_t bytes = 0;
    std::vector<Digest> chunks;

    std::size_t chunks_count() const { return chunks.size(); }
    std::uint64_t chunk_offset(std::size_t index) const {
        return index * std::uint64_t{chunk_bytes};
    }
    std::size_t chunk_size(std::size_t index) const;
    // True if these bytes are chunk `index`. Index must exist.
    bool holds(std::size_t index, ByteView chunk) const;

    // Checks counts and that everything hashes to `expected_root`. Errors: bad_input.
    Ok verify(const Digest& expected_root) const;

    friend bool operator==(const Manifest&, const Manifest&) = default;

    DEDLOC_FIELDS(root, bytes, (chunks, chunks_max))
};

// Canonical bytes of chunk `index`, copied out of the sections.
Bytes chunk(const Snapshot& snapshot, std::size_t index);

// A snapshot with its name and proof: what is published, served and saved.
struct PublishedState {
    std::shared_ptr<const Snapshot> snapshot;
    Manifest manifest;

    const Digest& root() const { return manifest.root; }
};

Manifest make_manifest(const Snapshot& snapshot);
// The same on the worker threads, for the network thread. A plain function that returns a Task:
// the arguments are owned by the tasks.
Task<std::shared_ptr<const PublishedState>> publish(runtime::Workers& workers,
                                                    std::shared_ptr<const Snapshot> snapshot);

}  // namespace dedloc::state
