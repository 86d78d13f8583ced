// Catalogue: what a run shares of its data, in pieces: how large each is, and the root of a Merkle
// tree over their hashes. The run file names a catalogue by its own hash, so that a piece can be
// checked whoever sends it: a piece travels with its path to the root.
//
// The meaning of the pieces is the task's affair, in `table` (text/shared_blocks.h).
//
// Limits: pieces_max pieces of at most piece_bytes_max. Cost: 3 bytes a piece, and one hash of all
// data where it is made. Thread: any; pure. Errors: bad_input.

#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/security/merkle_tree.h"

namespace dedloc::data {

inline constexpr std::size_t pieces_max = 4u << 20;       // of 64 KiB: 256 GB
inline constexpr std::size_t piece_bytes_max = 3u << 20;  // one fits in an answer
inline constexpr std::size_t catalogue_bytes_max = 64u << 20;
inline constexpr std::size_t piece_path_max = 22;  // of pieces_max leaves

struct Catalogue {
    Digest root;
    std::vector<std::uint32_t> sizes;
    Bytes table;

    std::size_t count() const { return sizes.size(); }
    std::uint64_t bytes() const;

    DEDLOC_FIELDS(root, (sizes, pieces_max), table)
};

// A piece as it travels and lies in caches.
struct Piece {
    std::vector<Digest> path;
    Bytes content;

    DEDLOC_FIELDS((path, piece_path_max), content)
};

// True if that is piece `index` of the catalogue.
bool is_piece(const Catalogue& catalogue, std::uint64_t index, const Piece& piece);

Result<Catalogue> parse_catalogue(ByteView bytes);

using ReadPiece = std::function<Result<Bytes>(std::uint64_t index)>;

// The catalogue of pieces that are here, with the tree that gives each its path.
struct OwnPieces {
    Catalogue catalogue;
    std::shared_ptr<const security::MerkleTree> tree;
    ReadPiece read;

    Result<Piece> piece(std::uint64_t index) const;
};
// Reads each piece once.
Result<OwnPieces> catalogue_of(std::vector<std::uint32_t> sizes, Bytes table, ReadPiece read);

}  // namespace dedloc::data
