// The two sides of a libp2p Noise handshake tell each other this inside it.
//
// Source: libp2p specs/noise (NoiseHandshakePayload, NoiseExtensions); field 3 was never used.
// Errors: bad_input. Thread: any.

#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/wire/message.h"

namespace dedloc::wire {

inline constexpr std::size_t noise_certhashes_max = 64;
inline constexpr std::size_t noise_muxers_max = 128;

struct NoiseExtensions {
    std::vector<Bytes> webtransport_certhashes = {};  // read and ignored
    std::vector<std::string> stream_muxers = {};      // best first

    DEDLOC_FIELDS((webtransport_certhashes, noise_certhashes_max),
                  (stream_muxers, noise_muxers_max))
};

struct NoisePayload {
    Bytes identity_key = {};  // PublicKey protobuf
    Bytes identity_signature = {};
    std::optional<NoiseExtensions> extensions = {};

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.identity_key);
        visit(2, self.identity_signature);
        visit(4, self.extensions);
    }
};

}  // namespace dedloc::wire
