// A stranger at our TLS server. First byte: the size of the pieces, and what the rest is:
//   even: all that the stranger sends;
//   odd:  (position, mask) of three bytes, by which a real client's flights are bent on their way.
// The server must never crash, and whom it lets in must be who the client is.

#include <algorithm>
#include <cstdlib>

#include "dedloc/security/channel_testing.h"
#include "dedloc/security/tls.h"

namespace {

using namespace dedloc;
using security::bend;
using security::feed_in_pieces;
using security::Identity;
using security::TlsChannel;
using security::TlsContext;

constexpr WallSeconds now = 1750000000;

const std::shared_ptr<const TlsContext>& context() {
    static const auto made = TlsContext::make(Identity::from_seed(Bytes(32, 1)).value());
    return made;
}

void stranger(ByteView bytes, std::size_t piece) {
    TlsChannel server = TlsChannel::server(context(), now);
    (void)feed_in_pieces(server, bytes, piece);
    if (server.handshake_done() || server.plain_bytes() != 0) std::abort();
    (void)server.take_output();
    server.close();
}

void bent_client(ByteView bends, std::size_t piece) {
    TlsChannel client = TlsChannel::client(context(), std::nullopt, now);
    TlsChannel server = TlsChannel::server(context(), now);
    for (int turns = 0; turns < 3 && !server.handshake_done(); ++turns) {
        Bytes flight = client.take_output();
        if (flight.empty()) return;
        (void)bend(flight, bends);
        if (!feed_in_pieces(server, flight, piece)) return;
        if (!client.feed(server.take_output())) return;
    }
    if (server.handshake_done() && server.remote_peer() != client.remote_peer()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::size_t piece = data[0] / 2 * std::size_t{16} + 1;
    const ByteView bytes(data + 1, size - 1);
    if (data[0] % 2 == 0)
        stranger(bytes, piece);
    else
        bent_client(bytes, piece);
    return 0;
}
