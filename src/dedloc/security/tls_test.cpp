#include "dedloc/security/tls.h"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "dedloc/base/random.h"
#include "dedloc/security/channel_checks_testing.h"
#include "dedloc/security/envelope.h"
#include "dedloc/security/identity_testing.h"

namespace dedloc::security {
namespace {

using TlsPair = ChannelPair<TlsChannel>;

TlsPair make_pair_of(std::shared_ptr<const TlsContext> client,
                     std::shared_ptr<const TlsContext> server,
                     std::optional<PeerId> expected = std::nullopt) {
    return {TlsChannel::client(std::move(client), std::move(expected), now),
            TlsChannel::server(std::move(server), now)};
}

TlsPair tls_to_bob(std::optional<PeerId> expected = std::nullopt) {
    return make_pair_of(TlsContext::make(alice), TlsContext::make(bob), std::move(expected));
}

void expect_established(const TlsPair& pair) {
    ASSERT_TRUE(pair.initiator.handshake_done() && pair.responder.handshake_done());
    EXPECT_EQ(pair.initiator.remote_peer(), bob.id());
    EXPECT_EQ(pair.responder.remote_peer(), alice.id());
}

TEST(Tls, both_sides_learn_who_the_other_is_however_the_bytes_are_cut) {
    for (const std::size_t piece : {1u, 2u, 3u, 5u, 6u, 64u, 1000u, 1u << 20}) {
        TlsPair pair = tls_to_bob(bob.id());
        const PairOutcome outcome = carry(pair, piece);
        EXPECT_TRUE(outcome.initiator) << piece;
        EXPECT_TRUE(outcome.responder) << piece;
        expect_established(pair);
        EXPECT_EQ(pair.initiator.protocol(), "/yamux/1.0.0");
        EXPECT_EQ(pair.responder.protocol(), "/yamux/1.0.0");
        ASSERT_TRUE(pair.initiator.encrypt(as_bytes("hello")));
        carry(pair, piece);
        EXPECT_EQ(pair.responder.take_plain(), to_bytes("hello"));
    }
}

TEST(Tls, another_peer_than_the_one_dialled_is_refused) {
    TlsPair pair = tls_to_bob(alice.id());
    const PairOutcome outcome = carry(pair);
    ASSERT_FALSE(outcome.initiator);
    EXPECT_EQ(outcome.initiator.error().kind(), ErrorKind::conflict);
    EXPECT_NE(outcome.initiator.error().message().find(bob.id().text()), std::string::npos);
    EXPECT_FALSE(pair.initiator.handshake_done());
    EXPECT_FALSE(pair.responder.handshake_done());
    EXPECT_FALSE(outcome.responder);                   // it received the alert
    EXPECT_FALSE(pair.initiator.feed(as_bytes("x")));  // dead, and says so again
    EXPECT_FALSE(pair.initiator.encrypt(as_bytes("x")));
}

TEST(Tls, the_clients_preference_decides_and_no_overlap_is_an_error) {
    TlsPair pair = make_pair_of(TlsContext::make(alice, {"b", "libp2p", "a"}),
                                TlsContext::make(bob, {"a", "b", "libp2p"}));
    carry(pair);
    expect_established(pair);
    EXPECT_EQ(pair.initiator.protocol(), "b");
    EXPECT_EQ(pair.responder.protocol(), "b");

    TlsPair apart = make_pair_of(TlsContext::make(alice, {"a"}), TlsContext::make(bob, {"b"}));
    const PairOutcome outcome = carry(apart);
    ASSERT_FALSE(outcome.responder);
    EXPECT_EQ(outcome.responder.error().kind(), ErrorKind::unsupported);
    ASSERT_FALSE(outcome.initiator);
    EXPECT_EQ(outcome.initiator.error().kind(), ErrorKind::unsupported);
}

TEST(Tls, megabytes_arrive_as_they_were_sent_both_ways) {
    TlsPair pair = tls_to_bob();
    carry(pair);
    base::Random random(7);
    for (const std::size_t size :
         {std::size_t{1}, tls_record_bytes_max, std::size_t{70001}, std::size_t{1} << 20}) {
        for (auto [from, to] : {std::pair{&pair.initiator, &pair.responder},
                                std::pair{&pair.responder, &pair.initiator}}) {
            const Bytes data = random.bytes(size);
            ASSERT_TRUE(from->encrypt(data));
            const Bytes ciphertext = from->take_output();
            EXPECT_FALSE(from->has_output());
            EXPECT_GT(ciphertext.size(), size);
            ASSERT_TRUE(feed_in_pieces(*to, ciphertext, 10007));
            ASSERT_EQ(to->plain_bytes(), size);
            Bytes received(std::min<std::size_t>(size, 1000));
            EXPECT_EQ(to->read_plain(received), received.size());
            base::append(received, to->take_plain());
            EXPECT_TRUE(received == data) << size;
            EXPECT_EQ(to->plain_bytes(), 0u);
        }
    }
}

TEST(Tls, data_in_the_flight_that_ends_the_handshake_is_not_lost) {
    expect_early_data_is_kept(tls_to_bob());
}

TEST(Tls, a_flipped_bit_anywhere_in_a_record_ends_the_channel) {
    for (const std::size_t position : {0u, 1u, 4u, 5u, 20u, 31u})
        expect_a_flipped_bit_ends_it(tls_to_bob(), 32u, position);
}

TEST(Tls, a_repeated_record_ends_the_channel) { expect_a_repeated_message_ends_it(tls_to_bob()); }

TEST(Tls, closing_is_told_apart_from_a_cut_connection) {
    TlsPair pair = tls_to_bob();
    carry(pair);
    ASSERT_TRUE(pair.initiator.encrypt(as_bytes("last words")));
    pair.initiator.close();
    EXPECT_FALSE(pair.initiator.encrypt(as_bytes("x")));
    EXPECT_FALSE(pair.responder.closed_by_peer());
    carry(pair);
    EXPECT_TRUE(pair.responder.closed_by_peer());
    EXPECT_EQ(pair.responder.take_plain(), to_bytes("last words"));
    // The other direction is still open.
    ASSERT_TRUE(pair.responder.encrypt(as_bytes("bye")));
    carry(pair);
    EXPECT_EQ(pair.initiator.take_plain(), to_bytes("bye"));
}

// A certificate of `identity` after `change` was made to it, signed again by its own key.
template <typename Change>
std::shared_ptr<const TlsContext> context_with(const Identity& identity, Change change) {
    TlsCertificate certificate = make_tls_certificate(identity);
    change(certificate.certificate.get());
    EXPECT_GT(X509_sign(certificate.certificate.get(), certificate.key.get(), EVP_sha256()), 0);
    return TlsContext::make(certificate, TlsContext::default_protocols());
}

TEST(Tls, bad_certificates_are_refused_by_clients_and_servers) {
    const auto without_extension = [](X509* x509) {
        X509_EXTENSION_free(X509_delete_ext(x509, 0));
    };
    const auto stolen_extension = [](X509* x509) {
        X509_EXTENSION_free(X509_delete_ext(x509, 0));
        const TlsCertificate other = make_tls_certificate(bob);
        X509_add_ext(x509, X509_get_ext(other.certificate.get(), 0), -1);
    };
    const auto expired = [](X509* x509) {
        ASN1_TIME_set(X509_getm_notAfter(x509), static_cast<time_t>(now) - 1);
    };
    const auto check = [](auto change, std::string_view rule) {
        TlsPair as_server = make_pair_of(TlsContext::make(alice), context_with(bob, change));
        const PairOutcome refused_server = carry(as_server);
        ASSERT_FALSE(refused_server.initiator) << rule;
        EXPECT_NE(refused_server.initiator.error().message().find(rule), std::string::npos);
        EXPECT_FALSE(as_server.initiator.handshake_done());

        TlsPair as_client = make_pair_of(context_with(alice, change), TlsContext::make(bob));
        const PairOutcome refused_client = carry(as_client);
        ASSERT_FALSE(refused_client.responder) << rule;
        EXPECT_NE(refused_client.responder.error().message().find(rule), std::string::npos);
        EXPECT_FALSE(as_client.responder.handshake_done());
        EXPECT_FALSE(refused_client.initiator);  // the alert came after its handshake was done
    };
    check(without_extension, "no libp2p extension");
    check(stolen_extension, "signature in it is false");
    check(expired, "expired");
}

// An OpenSSL that is not ours, to break rules with.
class RawPeer {
  public:
    RawPeer(SSL_CTX* context, bool is_server) : ssl_(SSL_new(context)) {
        BIO* in = BIO_new(BIO_s_mem());
        BIO* out = BIO_new(BIO_s_mem());
        SSL_set_bio(ssl_, in, out);
        is_server ? SSL_set_accept_state(ssl_) : SSL_set_connect_state(ssl_);
    }
    ~RawPeer() { SSL_free(ssl_); }
    RawPeer(const RawPeer&) = delete;
    RawPeer& operator=(const RawPeer&) = delete;

    // Talks to `ours` until it fails or both are done.
    Ok talk(TlsChannel& ours) {
        for (int turns = 0; turns < 10; ++turns) {
            const Bytes words = ours.take_output();
            BIO_write(SSL_get_rbio(ssl_), words.data(), static_cast<int>(words.size()));
            SSL_do_handshake(ssl_);
            Bytes answer(1 << 16);
            const int size = BIO_read(SSL_get_wbio(ssl_), answer.data(), 1 << 16);
            if (size > 0) {
                DEDLOC_TRY_VOID(ours.feed(ByteView(answer).first(static_cast<std::size_t>(size))));
            }
            if (size <= 0 && words.empty()) break;
        }
        return {};
    }

  private:
    SSL* ssl_;
};

struct RawOptions {
    int version_max = TLS1_3_VERSION;
    int certificates = 1;
    const char* alpn = "\x06libp2p";
    const char* groups = "X25519";
};

using RawContext = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

RawContext raw_context(const RawOptions& options) {
    const TlsCertificate own = make_tls_certificate(alice);
    RawContext made(SSL_CTX_new(TLS_method()), &SSL_CTX_free);
    SSL_CTX* context = made.get();
    SSL_CTX_set_max_proto_version(context, options.version_max);
    EXPECT_EQ(SSL_CTX_set1_groups_list(context, options.groups), 1) << options.groups;
    if (options.certificates > 0) {
        SSL_CTX_use_certificate(context, own.certificate.get());
        SSL_CTX_use_PrivateKey(context, own.key.get());
    }
    if (options.certificates > 1) SSL_CTX_add1_chain_cert(context, own.certificate.get());
    if (options.alpn != nullptr)
        SSL_CTX_set_alpn_protos(context,
                                reinterpret_cast<const unsigned char*>(options.alpn),
                                static_cast<unsigned>(std::strlen(options.alpn)));
    return made;
}

bool try_client(const RawOptions& options) {
    RawPeer client(raw_context(options).get(), /*is_server=*/false);
    TlsChannel server = TlsChannel::server(TlsContext::make(bob), now);
    const Ok result = client.talk(server);
    EXPECT_EQ(result.has_value(), server.handshake_done());
    return server.handshake_done();
}

bool try_server(const RawOptions& options) {
    const RawContext context = raw_context(options);
    SSL_CTX_set_alpn_select_cb(context.get(), take_first_protocol, nullptr);
    RawPeer server(context.get(), /*is_server=*/true);
    TlsChannel client = TlsChannel::client(TlsContext::make(bob), std::nullopt, now);
    const Ok result = server.talk(client);
    EXPECT_EQ(result.has_value(), client.handshake_done());
    return client.handshake_done();
}

TEST(Tls, clients_without_certificate_with_two_or_of_an_older_version_are_refused) {
    EXPECT_TRUE(try_client({}));
    EXPECT_FALSE(try_client({.version_max = TLS1_2_VERSION}));
    EXPECT_FALSE(try_client({.certificates = 0}));
    EXPECT_FALSE(try_client({.certificates = 2}));
    EXPECT_FALSE(try_client({.alpn = nullptr}));
    EXPECT_FALSE(try_client({.alpn = "\x02h2"}));
}

// A stranger chooses the key exchange, and OpenSSL knows some that cost a server 94 ms.
TEST(Tls, only_cheap_key_exchanges_are_made_by_servers_and_clients) {
    for (const char* groups : {"X25519", "P-256", "ffdhe8192:X25519"}) {
        EXPECT_TRUE(try_client({.groups = groups})) << groups;
        EXPECT_TRUE(try_server({.groups = groups})) << groups;
    }
    for (const char* groups : {"ffdhe2048", "ffdhe8192", "X448", "P-521", "P-384"}) {
        EXPECT_FALSE(try_client({.groups = groups})) << groups;
        EXPECT_FALSE(try_server({.groups = groups})) << groups;
    }
}

TEST(Tls, garbage_is_refused_and_not_waited_for) {
    TlsChannel server = TlsChannel::server(TlsContext::make(bob), now);
    const Ok fed = server.feed(as_bytes("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"));
    ASSERT_FALSE(fed);
    EXPECT_EQ(fed.error().kind(), ErrorKind::peer_broke_protocol);
    TlsChannel early = TlsChannel::server(TlsContext::make(bob), now);
    EXPECT_FALSE(early.encrypt(as_bytes("x")));
}

TEST(Envelope, opens_only_for_its_domain_and_type_and_unchanged) {
    const Bytes type = {3, 1};
    const Bytes sealed = seal_envelope(alice, "libp2p-peer-record", type, as_bytes("record"));
    const auto opened = open_envelope(sealed, "libp2p-peer-record", type);
    ASSERT_TRUE(opened) << opened.error().message();
    EXPECT_EQ(opened->signer.peer_id(), alice.id());
    EXPECT_EQ(opened->payload, to_bytes("record"));
    EXPECT_FALSE(open_envelope(sealed, "libp2p-relay-rsvp", type));
    EXPECT_FALSE(open_envelope(sealed, "libp2p-peer-record", Bytes{3, 2}));
    for (std::size_t i = 0; i < sealed.size(); ++i) {
        Bytes changed = sealed;
        changed[i] ^= 0x40;
        EXPECT_FALSE(open_envelope(changed, "libp2p-peer-record", type)) << i;
    }
    EXPECT_FALSE(open_envelope(Bytes(envelope_bytes_max + 1), "libp2p-peer-record", type));
}

}  // namespace
}  // namespace dedloc::security
