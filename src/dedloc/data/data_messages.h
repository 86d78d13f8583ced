// Messages by which peers give each other pieces of a run's data (docs/spec/data.md). Pure.

#pragma once
#include <cstdint>
#include <vector>

#include "dedloc/base/fields.h"
#include "dedloc/data/catalogue.h"

namespace dedloc::data {

inline constexpr std::size_t asked_max = 1024;           // pieces of one question
inline constexpr std::size_t answered_max = 64;          // pieces of one answer
inline constexpr std::size_t answer_bytes = 256u << 10;  // then no further piece is added

// Which of these are there, or the pieces themselves, as many as an answer takes.
struct PiecesRequest {
    Digest catalogue;
    std::vector<std::uint64_t> pieces;
    Bytes proof;
    DEDLOC_FIELDS(catalogue, (pieces, asked_max), proof)
};

struct HavePiecesReply {
    Bytes bits;             // base/bits.h, by the places in the question
    bool is_whole = false;  // this peer has all, and is asked last
    DEDLOC_FIELDS(bits, is_whole)
};

struct PiecesReply {
    std::vector<Piece> pieces;  // the first of the question that are there, without gaps
    DEDLOC_FIELDS((pieces, answered_max))
};

}  // namespace dedloc::data
