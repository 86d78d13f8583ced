// An authenticated, encrypted channel to one peer as a state machine without a socket: ciphertext
// in, ciphertext out. Two kinds: TlsChannel (tls.h) and NoiseChannel (noise.h).
//
//   auto channel = ...;                               // as the side that dialled, or that answers
//   send(channel->take_output());                     // the first flight, where there is one
//   while (!channel->handshake_done()) {
//       DEDLOC_TRY_VOID(channel->feed(received));     // on an error: send take_output() (an alert)
//       send(channel->take_output());
//   }
//   channel->encrypt(plain); send(channel->take_output());
//   channel->feed(received); use(channel->take_plain());
//
// Memory: what was fed and not read, what was encrypted and not taken.
// Thread: any one at a time; a channel may move between threads.
// Errors: peer_broke_protocol; conflict (another peer answered); unsupported (nothing in common).
// After an error the channel is dead and returns it again.

#pragma once
#include <span>
#include <string>

#include "dedloc/base/bytes.h"
#include "dedloc/security/identity.h"

namespace dedloc::security {

// protocol() says this when the muxer is still to be agreed on, by multistream-select inside.
inline constexpr std::string_view multistream_follows = "libp2p";

// Takes decrypted bytes as they come.
class PlainReader {
  public:
    virtual ~PlainReader() = default;
    // Where the next bytes should lie, to spare a copy; empty: anywhere.
    virtual std::span<std::uint8_t> place() { return {}; }
    // The view ends with the call. An error ends the feeding.
    virtual Ok take(ByteView plain) = 0;
};

class Channel {
  public:
    virtual ~Channel() = default;

    // Takes all of it: goes on with the handshake, decrypts what is data.
    virtual Ok feed(ByteView ciphertext) = 0;
    // The same, and hands decrypted bytes on while they are warm in the cache.
    virtual Ok feed_to(ByteView ciphertext, PlainReader& reader) {
        Ok fed = feed(ciphertext);
        if (!fed || plain_bytes() == 0) return fed;
        const Bytes plain = take_plain();
        return reader.take(plain);
    }
    virtual bool has_output() const = 0;
    virtual Bytes take_output() = 0;
    // Gives the memory of a sent output back for the next one.
    virtual void recycle(Bytes) {}

    virtual bool handshake_done() const = 0;
    // From here on only after handshake_done().
    virtual const PublicKey& remote_key() const = 0;
    const PeerId& remote_peer() const { return remote_key().peer_id(); }
    // The muxer that both sides agreed on during the handshake, or multistream_follows.
    virtual const std::string& protocol() const = 0;

    virtual Ok encrypt(ByteView plain) = 0;
    virtual std::size_t plain_bytes() const = 0;  // decrypted and not yet read
    virtual std::size_t read_plain(std::span<std::uint8_t> out) = 0;
    // All of it, without a copy if nothing of it was read before.
    virtual Bytes take_plain() = 0;

    // Says goodbye: no more encrypt() afterwards. What the other side still sends is read on.
    virtual void close() = 0;
    // The peer said goodbye; an end without it is a cut connection. Noise has no goodbye: never
    // true.
    virtual bool closed_by_peer() const = 0;

  protected:
    Channel() = default;
    Channel(Channel&&) = default;
    Channel& operator=(Channel&&) = default;
};

}  // namespace dedloc::security
