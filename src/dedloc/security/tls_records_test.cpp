// Our records against OpenSSL's: it is the other side of every connection here.

#include "dedloc/security/tls_records.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "dedloc/security/identity_testing.h"
#include "dedloc/security/pattern_testing.h"
#include "dedloc/security/tls.h"

namespace dedloc::security {
namespace {

// A whole OpenSSL peer with memory for a socket.
class ForeignPeer {
  public:
    ForeignPeer(bool is_server, const char* suites, int tickets = 0) {
        const TlsCertificate own = make_tls_certificate(Identity::from_seed(Bytes(32, 2)).value());
        SSL_CTX* context = SSL_CTX_new(TLS_method());
        SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
        SSL_CTX_set_ciphersuites(context, suites);
        SSL_CTX_set_num_tickets(context, static_cast<std::size_t>(tickets));
        SSL_CTX_use_certificate(context, own.certificate.get());
        SSL_CTX_use_PrivateKey(context, own.key.get());
        static constexpr unsigned char alpn[] = "\x06libp2p";
        SSL_CTX_set_alpn_protos(context, alpn, 7);
        SSL_CTX_set_alpn_select_cb(context, take_first_protocol, nullptr);
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, [](int, X509_STORE_CTX*) { return 1; });
        // Tickets of a server that asks for certificates need a name for its sessions.
        SSL_CTX_set_session_id_context(context, alpn, 7);
        SSL_CTX_set_keylog_callback(context, [](const SSL* ssl, const char* line) {
            const std::string_view text(line);
            if (text.starts_with(SSL_is_server(ssl) == 1 ? "SERVER_TRAFFIC_SECRET_0 "
                                                         : "CLIENT_TRAFFIC_SECRET_0 "))
                *static_cast<Bytes*>(SSL_get_app_data(ssl)) =
                    base::from_hex(text.substr(text.rfind(' ') + 1)).value();
        });
        ssl_ = SSL_new(context);
        SSL_set_app_data(ssl_, &secret_);
        SSL_CTX_free(context);
        SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        is_server ? SSL_set_accept_state(ssl_) : SSL_set_connect_state(ssl_);
    }
    ~ForeignPeer() { SSL_free(ssl_); }
    ForeignPeer(const ForeignPeer&) = delete;
    ForeignPeer& operator=(const ForeignPeer&) = delete;

    SSL* ssl() { return ssl_; }
    // The secret of what it sends after the handshake.
    const Bytes& secret() const { return secret_; }
    Bytes take_output() {
        Bytes bytes(BIO_ctrl_pending(SSL_get_wbio(ssl_)));
        if (!bytes.empty())
            BIO_read(SSL_get_wbio(ssl_), bytes.data(), static_cast<int>(bytes.size()));
        return bytes;
    }
    void feed(ByteView bytes) {
        BIO_write(SSL_get_rbio(ssl_), bytes.data(), static_cast<int>(bytes.size()));
    }
    void write(ByteView plain) {
        ASSERT_EQ(SSL_write(ssl_, plain.data(), static_cast<int>(plain.size())),
                  static_cast<int>(plain.size()));
    }
    Bytes read_all() {
        Bytes all;
        Bytes piece(1 << 15);
        int size = 0;
        while ((size = SSL_read(ssl_, piece.data(), static_cast<int>(piece.size()))) > 0)
            base::append(all, ByteView(piece).first(static_cast<std::size_t>(size)));
        return all;
    }

  private:
    SSL* ssl_ = nullptr;
    Bytes secret_;
};

constexpr const char* all_suites =
    "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384";

struct Meeting {
    explicit Meeting(bool we_are_server, const char* suites = all_suites, int tickets = 0)
        : foreign(!we_are_server, suites, tickets),
          ours(we_are_server ? TlsChannel::server(context, now)
                             : TlsChannel::client(context, std::nullopt, now)) {
        for (int turns = 0; turns < 6; ++turns) {
            foreign.feed(ours.take_output());
            SSL_do_handshake(foreign.ssl());
            EXPECT_TRUE(ours.feed(foreign.take_output()));
        }
        EXPECT_TRUE(ours.handshake_done());
    }

    std::shared_ptr<const TlsContext> context =
        TlsContext::make(Identity::from_seed(Bytes(32, 1)).value());
    ForeignPeer foreign;
    TlsChannel ours;
};

void talk(Meeting& meeting, std::size_t size) {
    const Bytes data = pattern(size);
    ASSERT_TRUE(meeting.ours.encrypt(data));
    meeting.foreign.feed(meeting.ours.take_output());
    EXPECT_EQ(meeting.foreign.read_all(), data);
    meeting.foreign.write(data);
    ASSERT_TRUE(meeting.ours.feed(meeting.foreign.take_output()));
    EXPECT_EQ(meeting.ours.take_plain(), data);
}

TEST(TlsRecords, openssl_reads_what_we_write_and_we_what_it_writes_in_every_suite) {
    for (const char* suite :
         {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}) {
        for (const bool we_are_server : {false, true}) {
            Meeting meeting(we_are_server, suite);
            ASSERT_STREQ(SSL_get_cipher_name(meeting.foreign.ssl()), suite);
            for (const std::size_t size : {1u, 100u, 16384u, 16385u, 100000u}) talk(meeting, size);
        }
    }
}

TEST(TlsRecords, keys_are_renewed_when_the_other_side_wishes) {
    for (const bool we_are_server : {false, true}) {
        Meeting meeting(we_are_server);
        talk(meeting, 1000);
        for (int times = 0; times < 3; ++times) {
            ASSERT_EQ(SSL_key_update(meeting.foreign.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
            meeting.foreign.write(as_bytes("with new keys"));
            ASSERT_TRUE(meeting.ours.feed(meeting.foreign.take_output()));
            EXPECT_EQ(meeting.ours.take_plain(), to_bytes("with new keys"));
            // Our keys are new from the next record on, and not a word before that.
            EXPECT_FALSE(meeting.ours.has_output());
            talk(meeting, 1000);
        }
    }
}

TEST(TlsRecords, tickets_for_later_are_thrown_away_however_they_are_cut) {
    Meeting meeting(false, all_suites, 4);
    meeting.foreign.write(as_bytes("after the tickets"));
    const Bytes bytes = meeting.foreign.take_output();
    for (const std::uint8_t& byte : bytes) ASSERT_TRUE(meeting.ours.feed(ByteView(&byte, 1)));
    EXPECT_EQ(meeting.ours.take_plain(), to_bytes("after the tickets"));
    talk(meeting, 1000);
}

TEST(TlsRecords, a_goodbye_is_understood_both_ways) {
    Meeting meeting(true);
    SSL_shutdown(meeting.foreign.ssl());
    ASSERT_TRUE(meeting.ours.feed(meeting.foreign.take_output()));
    EXPECT_TRUE(meeting.ours.closed_by_peer());
    meeting.ours.close();
    meeting.foreign.feed(meeting.ours.take_output());
    EXPECT_EQ(SSL_shutdown(meeting.foreign.ssl()), 1);
}

Ok update_keys(Meeting& meeting) {
    EXPECT_EQ(SSL_key_update(meeting.foreign.ssl(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    EXPECT_EQ(SSL_do_handshake(meeting.foreign.ssl()), 1);
    return meeting.ours.feed(meeting.foreign.take_output());
}

TEST(TlsRecords, key_updates_are_taken_only_as_long_as_data_come_between_them) {
    for (const bool we_are_server : {false, true}) {
        Meeting honest(we_are_server);
        for (int times = 0; times < 40; ++times) {
            ASSERT_TRUE(update_keys(honest));
            honest.foreign.write(as_bytes("x"));
            ASSERT_TRUE(honest.ours.feed(honest.foreign.take_output()));
        }
        EXPECT_EQ(honest.ours.take_plain(), Bytes(40, 'x'));
        talk(honest, 1000);

        Meeting hostile(we_are_server);
        int taken = 0;
        while (taken < 40 && update_keys(hostile)) ++taken;
        EXPECT_EQ(taken, 32);
        EXPECT_FALSE(hostile.ours.encrypt(as_bytes("x")));
    }
}

// Sends after the handshake what OpenSSL never would.
class Forger {
  public:
    explicit Forger(bool we_are_server)
        : meeting_(we_are_server, suite),
          sealer_(
              *TlsSuite::by_name(suite), meeting_.foreign.secret(), TlsRecords::Direction::seal) {}
    Ok say(TlsContent type, ByteView plain) {
        OutputBuffer out;
        sealer_.seal(type, plain, out);
        return meeting_.ours.feed(out.take());
    }

  private:
    static constexpr const char* suite = "TLS_AES_128_GCM_SHA256";
    Meeting meeting_;
    TlsRecords sealer_;
};

TEST(TlsRecords, empty_records_are_taken_only_as_long_as_data_come_between_them) {
    Forger forger(/*we_are_server=*/true);
    for (int round = 0; round < 3; ++round) {
        for (int times = 0; times < 32; ++times)
            ASSERT_TRUE(forger.say(TlsContent::application_data, {}));
        ASSERT_TRUE(forger.say(TlsContent::application_data, as_bytes("x")));
    }
    for (int times = 0; times < 32; ++times)
        ASSERT_TRUE(forger.say(TlsContent::application_data, {}));
    EXPECT_FALSE(forger.say(TlsContent::application_data, {}));
}

TEST(TlsRecords, a_few_tickets_are_taken_and_from_servers_only) {
    const Bytes ticket = {4, 0, 0, 0};
    Bytes few;
    for (int times = 0; times < 32; ++times) base::append(few, ticket);
    Forger server(/*we_are_server=*/false);
    ASSERT_TRUE(server.say(TlsContent::handshake, few));
    ASSERT_TRUE(server.say(TlsContent::application_data, as_bytes("x")));
    ASSERT_TRUE(server.say(TlsContent::handshake, few));
    EXPECT_FALSE(server.say(TlsContent::handshake, ticket));
    Forger client(/*we_are_server=*/true);
    EXPECT_FALSE(client.say(TlsContent::handshake, ticket));
}

TEST(TlsRecords, a_message_in_crumbs_is_taken_no_longer_than_empty_records) {
    Bytes ticket(104);
    ticket[0] = 4;
    ticket[3] = 100;
    Forger halves(/*we_are_server=*/false);
    for (int times = 0; times < 16; ++times) {
        ASSERT_TRUE(halves.say(TlsContent::handshake, ByteView(ticket).first(52)));
        ASSERT_TRUE(halves.say(TlsContent::handshake, ByteView(ticket).subspan(52)));
    }
    EXPECT_FALSE(halves.say(TlsContent::handshake, ticket));
    Forger crumbs(/*we_are_server=*/false);
    std::size_t taken = 0;
    while (taken < 40 && crumbs.say(TlsContent::handshake, ByteView(ticket).subspan(taken, 1)))
        ++taken;
    EXPECT_EQ(taken, 32u);
}

// A peer may send, after the handshake, what OpenSSL never would: sealed with a secret that both
// know.
class Rules : public testing::Test {
  protected:
    using Direction = TlsRecords::Direction;
    const TlsSuite suite = *TlsSuite::by_name("TLS_AES_128_GCM_SHA256");
    TlsRecords sealer{suite, Bytes(32, 9), Direction::seal};
    TlsRecords opener{suite, Bytes(32, 9), Direction::open};
};

TEST_F(Rules, records_of_every_size_open_to_what_was_sealed) {
    for (const std::size_t size : {0u, 1u, 15u, 16u, 17u, 16383u, 16384u}) {
        const Bytes plain = pattern(size);
        OutputBuffer out;
        sealer.seal(TlsContent::application_data, plain, out);
        const Bytes record = out.take();
        EXPECT_EQ(TlsRecords::record_size(record).value(), record.size());
        Bytes place(TlsRecords::room_for(record));
        ASSERT_EQ(place.size(), size);
        const auto opened = opener.open(record, place);
        ASSERT_TRUE(opened) << size;
        EXPECT_TRUE(base::equal(opened->plain, plain));
        EXPECT_EQ(opened->type, TlsContent::application_data);
    }
}

TEST_F(Rules, every_flipped_bit_is_noticed) {
    const Bytes plain = pattern(50);
    for (std::size_t i = 0; i < 5 + 50 + 17; ++i) {
        OutputBuffer out;
        TlsRecords fresh_sealer(suite, Bytes(32, 9), Direction::seal);
        TlsRecords fresh_opener(suite, Bytes(32, 9), Direction::open);
        fresh_sealer.seal(TlsContent::application_data, plain, out);
        Bytes record = out.take();
        record[i] ^= 0x20;
        Bytes place(1 << 15);
        EXPECT_FALSE(fresh_opener.open(record, place)) << i;
    }
}

TEST_F(Rules, padding_is_taken_off_and_a_record_of_nothing_else_is_refused) {
    // A record whose content ends with zeros and a type of 0 reads as padding: what is left has the
    // type of the last byte that is not 0.
    OutputBuffer out;
    const Bytes plain = {1, 2, 3, 23, 0, 0, 0};
    sealer.seal(static_cast<TlsContent>(0), plain, out);
    Bytes place(100);
    const auto opened = opener.open(out.take(), place);
    ASSERT_TRUE(opened);
    EXPECT_EQ(opened->type, TlsContent::application_data);
    EXPECT_EQ(to_bytes(opened->plain), (Bytes{1, 2, 3}));
    sealer.seal(static_cast<TlsContent>(0), Bytes(40, 0), out);
    EXPECT_FALSE(opener.open(out.take(), place));
}

TEST_F(Rules, headers_of_what_is_no_encrypted_record_are_refused) {
    EXPECT_EQ(TlsRecords::record_size(Bytes{23, 3, 3, 0}).value(), 0u);
    EXPECT_TRUE(TlsRecords::record_size(Bytes{23, 3, 3, 0, 17}));
    EXPECT_FALSE(TlsRecords::record_size(Bytes{23, 3, 3, 0, 16}));    // no type
    EXPECT_FALSE(TlsRecords::record_size(Bytes{20, 3, 3, 0, 40}));    // in the clear
    EXPECT_FALSE(TlsRecords::record_size(Bytes{23, 2, 3, 0, 40}));    // another protocol
    EXPECT_TRUE(TlsRecords::record_size(Bytes{23, 3, 3, 0x41, 0}));   // 16 KiB and 256
    EXPECT_FALSE(TlsRecords::record_size(Bytes{23, 3, 3, 0x41, 1}));  // more
}

}  // namespace
}  // namespace dedloc::security
