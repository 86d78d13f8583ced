// TLS 1.3 as libp2p uses it ("/tls/1.0.0"), without a socket: ciphertext in, ciphertext out.
//
//   TlsChannel channel = TlsChannel::client(context, expected_peer, now);   // then as channel.h
//   says
//
// Both sides prove their PeerId (tls_certificate.h). A client is done before the server has
// checked its certificate: only the first bytes it reads tell that it was accepted.
//
// The application protocol that both agree on (ALPN) names the muxer at once ("/yamux/1.0.0"), or
// is "libp2p": then multistream-select follows inside. The client's order decides.
//
// OpenSSL makes the handshake; then its keys are taken over and it goes (tls_records.h): each byte
// is touched once instead of three times, and a connection costs 2 KiB instead of 40.
//
// Source: libp2p specs/tls and connections/inlined-muxer-negotiation; RFC 8446.
// Cost: tls_bench.cpp. Memory: beside its buffers, less than one record (16 KiB).
// Thread and errors: channel.h. What is fed while nobody reads is kept: read before feeding again.

#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/time.h"
#include "dedloc/security/channel.h"
#include "dedloc/security/identity.h"
#include "dedloc/security/tls_certificate.h"
#include "dedloc/security/tls_records.h"

namespace dedloc::security {

inline constexpr std::string_view tls_protocol = "/tls/1.0.0";

// All channels of a process share these: its certificate, and the application protocols it speaks,
// best first.
class TlsContext {
  public:
    static std::shared_ptr<const TlsContext> make(
        const Identity& identity, std::vector<std::string> protocols = default_protocols());
    // With a certificate from elsewhere.
    static std::shared_ptr<const TlsContext> make(const TlsCertificate& certificate,
                                                  std::vector<std::string> protocols);
    static std::vector<std::string> default_protocols() { return {"/yamux/1.0.0", "libp2p"}; }

    ~TlsContext();
    TlsContext(const TlsContext&) = delete;
    TlsContext& operator=(const TlsContext&) = delete;

  private:
    friend class TlsChannel;
    struct Implementation;
    explicit TlsContext(std::unique_ptr<Implementation> implementation);
    std::unique_ptr<Implementation> implementation_;
};

class TlsChannel final : public Channel {
  public:
    // `expected`: whom we dialled; nullopt: whoever answers. `now`: for the certificate's dates.
    static TlsChannel client(std::shared_ptr<const TlsContext> context,
                             std::optional<PeerId> expected,
                             WallSeconds now);
    static TlsChannel server(std::shared_ptr<const TlsContext> context, WallSeconds now);
    ~TlsChannel() override;
    TlsChannel(TlsChannel&&) noexcept;
    TlsChannel& operator=(TlsChannel&&) noexcept;

    Ok feed(ByteView ciphertext) override;
    Ok feed_to(ByteView ciphertext, PlainReader& reader) override;
    bool has_output() const override;
    Bytes take_output() override;
    void recycle(Bytes output) override;
    bool handshake_done() const override;
    const PublicKey& remote_key() const override;
    const std::string& protocol() const override;  // what ALPN chose
    Ok encrypt(ByteView plain) override;
    std::size_t plain_bytes() const override;
    std::size_t read_plain(std::span<std::uint8_t> out) override;
    Bytes take_plain() override;
    void close() override;
    bool closed_by_peer() const override;

  private:
    struct State;
    explicit TlsChannel(std::unique_ptr<State> state);
    static std::unique_ptr<State> make_state(std::shared_ptr<const TlsContext> context,
                                             WallSeconds now);
    std::unique_ptr<State> state_;
};

}  // namespace dedloc::security
