// A stranger at our TLS server. First byte: the size of the pieces, and what the rest is:
//   even: all that the stranger sends;
//   odd:  (position, mask) of three bytes, by which a real client's flights are bent on their way.
// The server must never crash, and whom it lets in must be who the client is.

#include <algorithm>
#include <cstdlib>

#include "dedloc/security/tls.h"

namespace {

using namespace dedloc;
using security::Identity;
using security::TlsChannel;
using security::TlsContext;

constexpr WallSeconds now = 1750000000;

const std::shared_ptr<const TlsContext>& context() {
    static const auto made = TlsContext::make(Identity::from_seed(Bytes(32, 1)).value());
    return made;
}

bool feed_in_pieces(TlsChannel& channel, ByteView bytes, std::size_t piece) {
    while (!bytes.empty()) {
        const std::size_t size = std::min(piece, bytes.size());
        if (!channel.feed(bytes.first(size))) return false;
        bytes = bytes.subspan(size);
    }
    return true;
}

void stranger(ByteView bytes, std::size_t piece) {
    TlsChannel server = TlsChannel::server(context(), now);
    (void)feed_in_pieces(server, bytes, piece);
    if (server.handshake_done() || server.plain_bytes() != 0) std::abort();
    (void)server.take_output();
    server.close();
}

// Bends `flight` by up to two (position, mask) of `bends`.
void bend(Bytes& flight, ByteView& bends) {
    for (int i = 0; i < 2 && bends.size() >= 3; ++i, bends = bends.subspan(3)) {
        const std::size_t position = (bends[0] * std::size_t{256} + bends[1]) % flight.size();
        flight[position] = static_cast<std::uint8_t>(flight[position] ^ bends[2]);
    }
}

void bent_client(ByteView bends, std::size_t piece) {
    TlsChannel client = TlsChannel::client(context(), std::nullopt, now);
    TlsChannel server = TlsChannel::server(context(), now);
    for (int turns = 0; turns < 3 && !server.handshake_done(); ++turns) {
        Bytes flight = client.take_output();
        if (flight.empty()) return;
        bend(flight, bends);
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
