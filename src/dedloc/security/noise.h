// Noise as libp2p uses it ("/noise"), without a socket.
//
//   NoiseChannel channel = NoiseChannel::initiator(context, expected_peer);   // then as channel.h
//   says
//
// Every message has its size in two bytes in front. The second and the third handshake message
// carry the sender's identity key, its signature of the sender's Noise key, and the muxers it
// speaks: the first of the initiator's that the responder has too is agreed on; where there is
// none, multistream-select follows inside, as in go-libp2p.
// As with TLS, the initiator is done before the responder has checked who it is.
//
// Source: libp2p specs/noise and connections/inlined-muxer-negotiation; noise_handshake.h.
// Cost: noise_bench.cpp. Memory: beside its buffers, less than one message (64 KiB).
// Thread and errors: channel.h. What is fed while nobody reads is kept: read before feeding again.

#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/security/channel.h"
#include "dedloc/security/identity.h"
#include "dedloc/security/noise_handshake.h"
#include "dedloc/security/output_buffer.h"

namespace dedloc::security {

inline constexpr std::string_view noise_protocol = "/noise";
// Plaintext of one message; encrypt() cuts longer inputs.
inline constexpr std::size_t noise_plain_bytes_max = noise_message_bytes_max - noise_tag_bytes;
// A handshake message with an RSA identity of 4096 bits and a few muxers has less than 4 KiB.
inline constexpr std::size_t noise_handshake_bytes_max = 16 * 1024;

// All channels of a process share these: its Noise key with the identity's signature, and the
// muxers it speaks, best first.
class NoiseContext {
  public:
    static std::shared_ptr<const NoiseContext> make(
        const Identity& identity,
        std::vector<std::string> muxers = default_muxers(),
        RandomFill random = secure_random_fill());
    static std::vector<std::string> default_muxers() { return {"/yamux/1.0.0"}; }

  private:
    friend class NoiseChannel;
    NoiseContext(const Identity& identity, std::vector<std::string> muxers, RandomFill random);

    RandomFill random_;
    X25519Key static_;
    std::vector<std::string> muxers_;
    Bytes payload_;
};

class NoiseChannel final : public Channel {
  public:
    // `expected`: whom we dialled; nullopt: whoever answers.
    static NoiseChannel initiator(std::shared_ptr<const NoiseContext> context,
                                  std::optional<PeerId> expected);
    static NoiseChannel responder(std::shared_ptr<const NoiseContext> context);

    Ok feed(ByteView ciphertext) override;
    Ok feed_to(ByteView ciphertext, PlainReader& reader) override;
    bool has_output() const override { return !output_.empty(); }
    Bytes take_output() override { return output_.take(); }
    void recycle(Bytes output) override { output_.recycle(std::move(output)); }
    bool handshake_done() const override { return ciphers_.has_value(); }
    const PublicKey& remote_key() const override;
    const std::string& protocol() const override { return muxer_; }
    Ok encrypt(ByteView plain) override;
    std::size_t plain_bytes() const override { return plain_.size() - plain_read_; }
    std::size_t read_plain(std::span<std::uint8_t> out) override;
    Bytes take_plain() override;
    void close() override { closed_ = true; }
    bool closed_by_peer() const override { return false; }

  private:
    NoiseChannel(NoiseHandshake::Role role,
                 std::shared_ptr<const NoiseContext> context,
                 std::optional<PeerId> expected);
    Ok receive_messages(ByteView bytes, PlainReader& reader);
    Ok receive_message(ByteView message, PlainReader& reader);
    Ok receive_handshake_message(ByteView message);
    Ok send_handshake_message(ByteView payload);
    Ok check_payload(ByteView payload);
    std::string choose_muxer(const std::vector<std::string>& theirs) const;
    Error dead(Error why);

    std::shared_ptr<const NoiseContext> context_;
    std::optional<PeerId> expected_;
    NoiseHandshake::Role role_;
    NoiseHandshake handshake_;
    std::optional<NoiseHandshake::Ciphers> ciphers_;
    std::optional<PublicKey> remote_key_;
    std::string muxer_;

    Bytes input_;  // the beginning of a message, with its size
    OutputBuffer output_;
    Bytes plain_;
    std::size_t plain_read_ = 0;  // bytes at the front of `plain_` that are already read
    bool closed_ = false;
    bool reader_failed_ = false;
    std::optional<Error> error_;
};

}  // namespace dedloc::security
