// Catalogues and pieces come from peers: never crash; a catalogue that is read has pieces within
// their bounds, and one encoding.

#include <algorithm>

#include "dedloc/base/check.h"
#include "dedloc/data/catalogue.h"
#include "dedloc/data/data_messages.h"
#include "dedloc/wire/message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc;
    const ByteView bytes(data, size);
    if (const auto reply = wire::decode<data::PiecesReply>(bytes))
        DEDLOC_CHECK(reply->pieces.size() <= data::answered_max);
    const auto piece = wire::decode<data::Piece>(bytes);
    const auto catalogue = data::parse_catalogue(bytes);
    if (!catalogue) return 0;
    DEDLOC_CHECK(catalogue->count() > 0 && catalogue->count() <= data::pieces_max);
    DEDLOC_CHECK(std::ranges::max(catalogue->sizes) <= data::piece_bytes_max);
    DEDLOC_CHECK(catalogue->bytes() <= data::pieces_max * data::piece_bytes_max);
    if (piece)
        for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{catalogue->count()}})
            (void)data::is_piece(*catalogue, index, *piece);
    const Bytes encoded = wire::encode(*catalogue);
    const auto again = data::parse_catalogue(encoded);
    DEDLOC_CHECK(again.has_value() && wire::encode(*again) == encoded);
    return 0;
}
