// A stranger at our Noise responder. First byte: the size of the pieces, and what the rest is:
//   even: all that the stranger sends;
//   odd:  (position, mask) of three bytes, by which a real initiator's messages, the last of which
//         carries data, are bent on their way.
// The responder must never crash, and whom it lets in must be who the initiator is.

#include <algorithm>
#include <cstdlib>

#include "dedloc/base/random.h"
#include "dedloc/security/channel_testing.h"
#include "dedloc/security/noise.h"

namespace {

using namespace dedloc;
using security::bend;
using security::feed_in_pieces;
using security::Identity;
using security::NoiseChannel;
using security::NoiseContext;

const std::shared_ptr<const NoiseContext>& context() {
    static const auto made =
        NoiseContext::make(Identity::from_seed(Bytes(32, 1)).value(),
                           NoiseContext::default_muxers(),
                           [random = std::make_shared<base::Random>(1)](auto out) {
                               for (auto& byte : out)
                                   byte = static_cast<std::uint8_t>(random->next());
                           });
    return made;
}

void stranger(ByteView bytes, std::size_t piece) {
    NoiseChannel responder = NoiseChannel::responder(context());
    (void)feed_in_pieces(responder, bytes, piece);
    if (responder.handshake_done() || responder.plain_bytes() != 0) std::abort();
    NoiseChannel initiator = NoiseChannel::initiator(context(), std::nullopt);
    (void)feed_in_pieces(initiator, bytes, piece);
    if (initiator.handshake_done() || initiator.plain_bytes() != 0) std::abort();
}

void bent_initiator(ByteView bends, std::size_t piece) {
    NoiseChannel initiator = NoiseChannel::initiator(context(), std::nullopt);
    NoiseChannel responder = NoiseChannel::responder(context());
    bool changed = false;
    for (int turns = 0; turns < 2; ++turns) {
        if (initiator.handshake_done() && !initiator.encrypt(Bytes(40, 'x'))) std::abort();
        Bytes flight = initiator.take_output();
        if (flight.empty()) break;  // one side waits for the rest of a message
        changed = bend(flight, bends) || changed;
        if (!feed_in_pieces(responder, flight, piece)) break;
        if (!initiator.feed(responder.take_output())) break;
    }
    if (responder.handshake_done() && responder.remote_peer() != initiator.remote_peer())
        std::abort();
    const bool arrived = responder.plain_bytes() == 40;
    if (arrived == changed) std::abort();  // nothing bent may pass, and all else must
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::size_t piece = data[0] / 2 * std::size_t{16} + 1;
    const ByteView bytes(data + 1, size - 1);
    if (data[0] % 2 == 0)
        stranger(bytes, piece);
    else
        bent_initiator(bytes, piece);
    return 0;
}
