// Tests and fuzz targets of both kinds of Channel use these. For tests only.

#pragma once
#include <algorithm>

#include "dedloc/security/channel.h"

namespace dedloc::security {

// Two ends of one connection.
template <typename OneChannel>
struct ChannelPair {
    OneChannel initiator;
    OneChannel responder;
};

struct PairOutcome {
    Ok initiator;
    Ok responder;
};

// Feeds `bytes` in pieces of at most `piece` bytes.
inline Ok feed_in_pieces(Channel& to, ByteView bytes, std::size_t piece) {
    while (!bytes.empty()) {
        const std::size_t size = std::min(piece, bytes.size());
        DEDLOC_TRY_VOID(to.feed(bytes.first(size)));
        bytes = bytes.subspan(size);
    }
    return {};
}

// Carries bytes to and fro until both are silent. An alert still arrives.
template <typename OneChannel>
PairOutcome carry(ChannelPair<OneChannel>& pair, std::size_t piece = 1 << 20) {
    PairOutcome outcome;
    for (int turns = 0; turns < 20 && (pair.initiator.has_output() || pair.responder.has_output());
         ++turns) {
        if (Ok fed = feed_in_pieces(pair.responder, pair.initiator.take_output(), piece); !fed)
            outcome.responder = std::move(fed);
        if (Ok fed = feed_in_pieces(pair.initiator, pair.responder.take_output(), piece); !fed)
            outcome.initiator = std::move(fed);
    }
    return outcome;
}

// Bends `flight` by up to two (position, mask) of `bends`; true if it is another one now.
inline bool bend(Bytes& flight, ByteView& bends) {
    const Bytes before = flight;
    for (int i = 0; i < 2 && bends.size() >= 3; ++i, bends = bends.subspan(3)) {
        const std::size_t position = (bends[0] * std::size_t{256} + bends[1]) % flight.size();
        flight[position] = static_cast<std::uint8_t>(flight[position] ^ bends[2]);
    }
    return flight != before;
}

}  // namespace dedloc::security
