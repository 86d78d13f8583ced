#include "dedloc/data/catalogue.h"

#include <algorithm>
#include <numeric>

#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::data {

std::uint64_t Catalogue::bytes() const {
    return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

bool is_piece(const Catalogue& catalogue, std::uint64_t index, const Piece& piece) {
    if (index >= catalogue.count()) return false;
    const auto place = static_cast<std::size_t>(index);
    return piece.content.size() == catalogue.sizes[place] &&
           security::is_under(catalogue.root,
                              place,
                              catalogue.count(),
                              security::sha256(piece.content),
                              piece.path);
}

Result<Catalogue> parse_catalogue(ByteView bytes) {
    DEDLOC_TRY(Catalogue catalogue, wire::decode<Catalogue>(bytes));
    if (catalogue.sizes.empty())
        return make_error(ErrorKind::bad_input, "the catalogue of the run's data has no pieces");
    if (std::ranges::max(catalogue.sizes) > piece_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "the catalogue of the run's data has pieces of more than {} bytes",
                          piece_bytes_max);
    return catalogue;
}

Result<Piece> OwnPieces::piece(std::uint64_t index) const {
    Piece made;
    DEDLOC_TRY(made.content, read(index));
    made.path = tree->path(static_cast<std::size_t>(index));
    return made;
}

Result<OwnPieces> catalogue_of(std::vector<std::uint32_t> sizes, Bytes table, ReadPiece read) {
    if (sizes.empty() || sizes.size() > pieces_max)
        return make_error(ErrorKind::bad_input,
                          "data that a run shares have 1 to {} pieces, not {}",
                          pieces_max,
                          sizes.size());
    std::vector<Digest> hashes;
    hashes.reserve(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] > piece_bytes_max)
            return make_error(ErrorKind::bad_input,
                              "a record of {} bytes is too long to be shared: at most {}",
                              sizes[i],
                              piece_bytes_max);
        DEDLOC_TRY(const Bytes content, read(i));
        hashes.push_back(security::sha256(content));
    }
    auto tree = std::make_shared<security::MerkleTree>(std::move(hashes));
    Catalogue catalogue;
    catalogue.root = tree->root();
    catalogue.sizes = std::move(sizes);
    catalogue.table = std::move(table);
    return OwnPieces{
        .catalogue = std::move(catalogue), .tree = std::move(tree), .read = std::move(read)};
}

}  // namespace dedloc::data
