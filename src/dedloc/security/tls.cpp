#include "dedloc/security/tls.h"

#include <algorithm>
#include <array>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "dedloc/base/check.h"

namespace dedloc::security {
namespace {

// AES-128 first, as Go does on machines with AES instructions; OpenSSL would take AES-256.
constexpr const char* cipher_suites =
    "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384";
// Anybody can make a server compute a key exchange of his choice. Of those that libp2p's
// implementations know these are the two that all of them offer; each takes a fraction of a
// millisecond. OpenSSL would also take ffdhe8192, where one hello of a stranger holds up the
// network thread for 94 ms.
constexpr const char* key_exchange_groups = "X25519:P-256";
// A certificate with an RSA identity of 4096 bits has less than 4 KiB.
constexpr long certificate_bytes_max = 16 * 1024;
// Header, type and tag that each record adds.
constexpr std::size_t record_overhead_bytes = tls_header_bytes + 1 + tls_tag_bytes;
constexpr std::size_t alpn_name_bytes_max = 255;
// Alerts (RFC 8446 §6).
constexpr std::uint8_t alert_warning = 1;
constexpr std::uint8_t alert_fatal = 2;
constexpr std::uint8_t alert_close_notify = 0;
constexpr std::uint8_t alert_unexpected_message = 10;
// Messages of the handshake protocol that may come after the handshake (RFC 8446 §4.6).
constexpr std::uint8_t message_new_session_ticket = 4;
constexpr std::uint8_t message_key_update = 24;
constexpr std::size_t message_header_bytes = 4;
// A ticket, which we throw away, may have as much (RFC 8446 §4.6.1: 64 KiB; nobody's has).
constexpr std::size_t message_bytes_max = 16u << 10;
// Records without data in a row; of several messages in one record each counts. A key update is 27
// bytes that cost us 6 µs; honest ones come singly, and a server's few tickets before its first
// data.
constexpr int without_data_max = 32;

template <typename T, void (*free_it)(T*)>
struct Freed {
    void operator()(T* pointer) const { free_it(pointer); }
};

struct Buffers {
    ByteView input;  // borrowed while feed() runs; OpenSSL takes what it wants for the handshake
    OutputBuffer output;
};

// A BIO over Buffers: OpenSSL's own memory BIO copies once more and moves its rest to the front
// after each write.
int bio_read(BIO* bio, char* out, std::size_t size, std::size_t* read) {
    BIO_clear_retry_flags(bio);
    ByteView& input = static_cast<Buffers*>(BIO_get_data(bio))->input;
    if (input.empty()) {
        BIO_set_retry_read(bio);
        return 0;
    }
    *read = std::min(size, input.size());
    std::memcpy(out, input.data(), *read);
    input = input.subspan(*read);
    return 1;
}

int bio_write(BIO* bio, const char* data, std::size_t size, std::size_t* written) {
    BIO_clear_retry_flags(bio);
    static_cast<Buffers*>(BIO_get_data(bio))
        ->output.append({reinterpret_cast<const std::uint8_t*>(data), size});
    *written = size;
    return 1;
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

int bio_create(BIO* bio) {
    BIO_set_init(bio, 1);
    return 1;
}

const BIO_METHOD* bio_method() {
    static const BIO_METHOD* const method = [] {
        BIO_METHOD* made =
            BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "dedloc buffers");
        DEDLOC_CHECK(made != nullptr);
        BIO_meth_set_read_ex(made, &bio_read);
        BIO_meth_set_write_ex(made, &bio_write);
        BIO_meth_set_ctrl(made, &bio_control);
        BIO_meth_set_create(made, &bio_create);
        return made;
    }();
    return method;
}

// One handshake asks this of the other side's certificate, and finds this.
struct CertificateCheck {
    WallSeconds now = 0;
    std::optional<PeerId> expected;
    std::optional<PublicKey> key;
    std::optional<Error> refusal;
    // The keys of the two directions come from these.
    Bytes client_secret;
    Bytes server_secret;

    Ok run(X509_STORE_CTX* store);
};

Ok CertificateCheck::run(X509_STORE_CTX* store) {
    // The list holds all that the peer sent.
    if (sk_X509_num(X509_STORE_CTX_get0_untrusted(store)) != 1)
        return make_error(ErrorKind::peer_broke_protocol,
                          "the peer sent more than one TLS certificate");
    DEDLOC_TRY(PublicKey shown, check_tls_certificate(X509_STORE_CTX_get0_cert(store), now));
    if (expected && shown.peer_id() != *expected)
        return make_error(ErrorKind::conflict,
                          "peer {} was dialled, but {} answered",
                          expected->text(),
                          shown.peer_id().text());
    key = std::move(shown);
    return {};
}

// The index under which an SSL finds its CertificateCheck.
int check_index() {
    static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return index;
}

// OpenSSL tells secrets as lines of text, made for debuggers: name, client's random, secret.
void take_secret(const SSL* ssl, const char* line) {
    auto& check = *static_cast<CertificateCheck*>(SSL_get_ex_data(ssl, check_index()));
    const std::string_view text(line);
    const auto name = text.substr(0, text.find(' '));
    const bool of_client = name == "CLIENT_TRAFFIC_SECRET_0";
    if (!of_client && name != "SERVER_TRAFFIC_SECRET_0") return;
    auto secret = base::from_hex(text.substr(text.rfind(' ') + 1));
    DEDLOC_CHECK(secret.has_value(), "OpenSSL's key log is not what it was");
    (of_client ? check.client_secret : check.server_secret) = *std::move(secret);
}

// Takes the place of OpenSSL's chain building: there is no chain and no authority.
int verify_certificate(X509_STORE_CTX* store, void*) {
    auto* ssl =
        static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto& check = *static_cast<CertificateCheck*>(SSL_get_ex_data(ssl, check_index()));
    Ok result = check.run(store);
    if (result) return 1;
    check.refusal = std::move(result).error();
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

}  // namespace

struct TlsContext::Implementation {
    std::vector<std::string> protocols;
    Bytes protocols_wire;  // each with a byte of length
    std::unique_ptr<SSL_CTX, Freed<SSL_CTX, SSL_CTX_free>> context;

    // The first of the client's list that we have, too.
    static int select_protocol(SSL* ssl,
                               const unsigned char** out,
                               unsigned char* out_size,
                               const unsigned char* offered,
                               unsigned int offered_bytes,
                               void* argument);
};

struct TlsChannel::State final : PlainReader {
    std::shared_ptr<const TlsContext> context;
    Buffers buffers;
    CertificateCheck check;
    std::unique_ptr<SSL, Freed<SSL, SSL_free>> ssl;  // points to the two above; null when done
    std::optional<TlsRecords> sending;
    std::optional<TlsRecords> receiving;

    Bytes record;            // the beginning of one
    Bytes message;           // the beginning of a handshake message
    bool owes_keys = false;  // the peer asked for our next keys
    int without_data = 0;    // records and messages since data came
    Bytes plain;
    std::size_t plain_read = 0;  // bytes at the front of `plain` that are already read

    bool done = false;
    bool is_server = false;  // once it is done
    bool peer_closed = false;
    bool closed = false;
    bool reader_failed = false;
    std::optional<Error> error;
    std::string protocol;

    Ok drive(PlainReader& reader);
    Ok handshake();
    Ok take_over();
    Ok read_records(PlainReader& reader);
    Ok receive_record(ByteView whole, PlainReader& reader);
    Ok hand_on(ByteView bytes, PlainReader& reader);
    Ok receive_alert(ByteView alert);
    Ok receive_messages(ByteView bytes);
    Ok count_without_data();
    void send_alert(std::uint8_t level, std::uint8_t what);
    Ok take(ByteView bytes) override {
        base::append(plain, bytes);
        return {};
    }
    Error fail(int result);
    Error broken(std::string_view rule) {
        return make_error(ErrorKind::peer_broke_protocol, "TLS connection failed: {}", rule);
    }
    Error dead(Error why) {
        error = why;
        record = {};
        message = {};
        return why;
    }
};

int TlsContext::Implementation::select_protocol(SSL*,
                                                const unsigned char** out,
                                                unsigned char* out_size,
                                                const unsigned char* offered,
                                                unsigned int offered_bytes,
                                                void* argument) {
    const auto& self = *static_cast<const Implementation*>(argument);
    ByteView rest(offered, offered_bytes);
    while (!rest.empty() && rest[0] < rest.size()) {
        const ByteView name = rest.subspan(1, rest[0]);
        for (const std::string& ours : self.protocols) {
            if (as_text(name) != ours) continue;
            *out = name.data();
            *out_size = rest[0];
            return SSL_TLSEXT_ERR_OK;
        }
        rest = rest.subspan(1 + name.size());
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

TlsContext::TlsContext(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
TlsContext::~TlsContext() = default;

std::shared_ptr<const TlsContext> TlsContext::make(const Identity& identity,
                                                   std::vector<std::string> protocols) {
    return make(make_tls_certificate(identity), std::move(protocols));
}

std::shared_ptr<const TlsContext> TlsContext::make(const TlsCertificate& certificate,
                                                   std::vector<std::string> protocols) {
    auto made = std::make_unique<Implementation>();
    made->protocols = std::move(protocols);
    for (const std::string& name : made->protocols) {
        DEDLOC_CHECK(!name.empty() && name.size() <= alpn_name_bytes_max);
        made->protocols_wire.push_back(static_cast<std::uint8_t>(name.size()));
        base::append(made->protocols_wire, as_bytes(name));
    }
    made->context.reset(SSL_CTX_new(TLS_method()));
    SSL_CTX* context = made->context.get();
    DEDLOC_CHECK(context != nullptr);
    DEDLOC_CHECK(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1);
    DEDLOC_CHECK(SSL_CTX_set_ciphersuites(context, cipher_suites) == 1);
    DEDLOC_CHECK(SSL_CTX_set1_groups_list(context, key_exchange_groups) == 1);
    SSL_CTX_set_options(context,
                        SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                            SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    DEDLOC_CHECK(SSL_CTX_set_num_tickets(context, 0) == 1);
    SSL_CTX_set_max_cert_list(context, certificate_bytes_max);
    SSL_CTX_set_alpn_select_cb(context, &Implementation::select_protocol, made.get());
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    SSL_CTX_set_cert_verify_callback(context, &verify_certificate, nullptr);
    SSL_CTX_set_keylog_callback(context, &take_secret);
    DEDLOC_CHECK(SSL_CTX_use_certificate(context, certificate.certificate.get()) == 1);
    DEDLOC_CHECK(SSL_CTX_use_PrivateKey(context, certificate.key.get()) == 1);
    return std::shared_ptr<const TlsContext>(new TlsContext(std::move(made)));
}

std::unique_ptr<TlsChannel::State> TlsChannel::make_state(std::shared_ptr<const TlsContext> context,
                                                          WallSeconds now) {
    auto state = std::make_unique<State>();
    state->check.now = now;
    state->ssl.reset(SSL_new(context->implementation_->context.get()));
    state->context = std::move(context);
    BIO* bio = BIO_new(bio_method());
    DEDLOC_CHECK(state->ssl != nullptr && bio != nullptr);
    BIO_set_data(bio, &state->buffers);
    SSL_set_bio(state->ssl.get(), bio, bio);
    DEDLOC_CHECK(SSL_set_ex_data(state->ssl.get(), check_index(), &state->check) == 1);
    return state;
}

TlsChannel::TlsChannel(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsChannel::~TlsChannel() = default;
TlsChannel::TlsChannel(TlsChannel&&) noexcept = default;
TlsChannel& TlsChannel::operator=(TlsChannel&&) noexcept = default;

TlsChannel TlsChannel::client(std::shared_ptr<const TlsContext> context,
                              std::optional<PeerId> expected,
                              WallSeconds now) {
    const Bytes& protocols = context->implementation_->protocols_wire;
    auto state = make_state(context, now);
    state->check.expected = std::move(expected);
    // Returns 0 for success, unlike everything else.
    DEDLOC_CHECK(SSL_set_alpn_protos(state->ssl.get(),
                                     protocols.data(),
                                     static_cast<unsigned>(protocols.size())) == 0);
    SSL_set_connect_state(state->ssl.get());
    (void)state->drive(*state);  // writes the first flight; an error comes back from feed()
    return TlsChannel(std::move(state));
}

TlsChannel TlsChannel::server(std::shared_ptr<const TlsContext> context, WallSeconds now) {
    auto state = make_state(std::move(context), now);
    SSL_set_accept_state(state->ssl.get());
    return TlsChannel(std::move(state));
}

Error TlsChannel::State::fail(int result) {
    const int kind = SSL_get_error(ssl.get(), result);
    const unsigned long code = ERR_get_error();
    const char* reason = ERR_reason_error_string(code);
    ERR_clear_error();
    if (check.refusal) return dead(*check.refusal);
    const std::string text = reason != nullptr ? reason : fmt::format("error {}", kind);
    if (ERR_GET_REASON(code) == SSL_R_NO_APPLICATION_PROTOCOL ||
        ERR_GET_REASON(code) == SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL)
        return dead(make_error(
            ErrorKind::unsupported, "the peer and we have no muxer in common (TLS: {})", text));
    return dead(make_error(ErrorKind::peer_broke_protocol,
                           "TLS {} failed: {}",
                           done ? "connection" : "handshake",
                           text));
}

Ok TlsChannel::State::handshake() {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl.get());
    if (result != 1) {
        if (SSL_get_error(ssl.get(), result) == SSL_ERROR_WANT_READ) return {};
        return fail(result);
    }
    const unsigned char* name = nullptr;
    unsigned int size = 0;
    SSL_get0_alpn_selected(ssl.get(), &name, &size);
    protocol = std::string(as_text({name, size}));
    if (protocol.empty())
        return dead(make_error(ErrorKind::unsupported,
                               "the peer does not say what it speaks inside TLS (ALPN)"));
    // Without resumption every handshake shows a certificate.
    if (!check.key)
        return dead(make_error(ErrorKind::peer_broke_protocol, "the peer showed no certificate"));
    return take_over();
}

// From OpenSSL's record layer to ours. It has read no further than the handshake goes.
Ok TlsChannel::State::take_over() {
    const auto suite =
        TlsSuite::by_name(SSL_CIPHER_standard_name(SSL_get_current_cipher(ssl.get())));
    is_server = SSL_is_server(ssl.get()) == 1;
    DEDLOC_CHECK(suite && !check.client_secret.empty() && !check.server_secret.empty() &&
                 SSL_has_pending(ssl.get()) == 0);
    Bytes& ours = is_server ? check.server_secret : check.client_secret;
    Bytes& theirs = is_server ? check.client_secret : check.server_secret;
    sending.emplace(*suite, std::move(ours), TlsRecords::Direction::seal);
    receiving.emplace(*suite, std::move(theirs), TlsRecords::Direction::open);
    ssl.reset();
    done = true;
    return {};
}

Ok TlsChannel::State::read_records(PlainReader& reader) {
    ByteView& input = buffers.input;
    while (!peer_closed && !input.empty()) {
        // Whole records are opened where they lie; only a piece of one is kept.
        if (record.empty()) {
            DEDLOC_TRY(const std::size_t whole, TlsRecords::record_size(input));
            if (whole > 0 && whole <= input.size()) {
                DEDLOC_TRY_VOID(receive_record(input.first(whole), reader));
                input = input.subspan(whole);
                continue;
            }
        }
        DEDLOC_TRY(const std::size_t known, TlsRecords::record_size(record));
        const std::size_t wanted = known > 0 ? known : tls_header_bytes;
        const std::size_t count = std::min(wanted - record.size(), input.size());
        base::append(record, input.first(count));
        input = input.subspan(count);
        if (known == 0 || record.size() < known) continue;
        const Bytes whole = std::exchange(record, {});
        DEDLOC_TRY_VOID(receive_record(whole, reader));
    }
    return {};
}

Ok TlsChannel::State::receive_record(ByteView whole, PlainReader& reader) {
    // Not initialized: it is written by open().
    std::array<std::uint8_t, tls_record_bytes_max + tls_record_expansion_max> room;
    std::span<std::uint8_t> place = reader.place();
    if (place.size() < TlsRecords::room_for(whole)) place = room;
    DEDLOC_TRY(const TlsRecords::Opened opened, receiving->open(whole, place));
    // A message of the handshake may be in pieces, but nothing else in between.
    if (!message.empty() && opened.type != TlsContent::handshake)
        return broken("a message in the middle of another");
    switch (opened.type) {
        case TlsContent::application_data:
            if (opened.plain.empty()) return count_without_data();
            without_data = 0;
            return hand_on(opened.plain, reader);
        case TlsContent::alert:
            return receive_alert(opened.plain);
        case TlsContent::handshake:
            return receive_messages(opened.plain);
        default:
            return broken("a record of unknown type");
    }
}

// The reader's errors are not the channel's: that can still be used to say why it ends.
Ok TlsChannel::State::hand_on(ByteView bytes, PlainReader& reader) {
    Ok taken = reader.take(bytes);
    reader_failed = !taken;
    return taken;
}

Ok TlsChannel::State::receive_alert(ByteView alert) {
    if (alert.size() != 2) return broken("an alert that is none");
    if (alert[1] != alert_close_notify)
        return broken(fmt::format("the peer ended it with alert {}", alert[1]));
    peer_closed = true;
    return {};
}

Ok TlsChannel::State::count_without_data() {
    if (++without_data > without_data_max) return broken("too many records without data");
    return {};
}

Ok TlsChannel::State::receive_messages(ByteView bytes) {
    if (bytes.empty()) return broken("an empty message");
    // Every record of a handshake message counts, so that a message in crumbs costs one for each.
    DEDLOC_TRY_VOID(count_without_data());
    base::append(message, bytes);
    ByteView rest = message;
    bool counted = true;  // the first message, with its record
    while (rest.size() >= message_header_bytes) {
        const std::uint8_t type = rest[0];
        const std::size_t body =
            rest[1] * std::size_t{65536} + rest[2] * std::size_t{256} + rest[3];
        const bool is_ticket = type == message_new_session_ticket && !is_server;
        if (!is_ticket && !(type == message_key_update && body == 1))
            return broken("a message that has no place after the handshake");
        if (body > message_bytes_max) return broken("a message too long");
        if (rest.size() < message_header_bytes + body) break;
        if (!std::exchange(counted, false)) DEDLOC_TRY_VOID(count_without_data());
        const std::uint8_t asks = body > 0 ? rest[message_header_bytes] : std::uint8_t{0};
        rest = rest.subspan(message_header_bytes + body);
        if (is_ticket) continue;
        if (asks > 1) return broken("a key update that is none");
        // The next record has new keys, so this one ends here.
        if (!rest.empty()) return broken("a message behind a key update");
        receiving->update_key();
        owes_keys = owes_keys || asks == 1;
    }
    message.erase(message.begin(), message.end() - static_cast<std::ptrdiff_t>(rest.size()));
    return {};
}

void TlsChannel::State::send_alert(std::uint8_t level, std::uint8_t what) {
    const std::array<std::uint8_t, 2> alert = {level, what};
    sending->seal(TlsContent::alert, alert, buffers.output);
}

Ok TlsChannel::State::drive(PlainReader& reader) {
    if (error) return *error;
    if (!done) DEDLOC_TRY_VOID(handshake());
    if (!done) return {};
    reader_failed = false;
    Ok read = read_records(reader);
    if (read || reader_failed) return read;
    send_alert(alert_fatal, alert_unexpected_message);
    return dead(std::move(read).error());
}

Ok TlsChannel::feed(ByteView ciphertext) {
    if (state_->done) state_->plain.reserve(state_->plain.size() + ciphertext.size());
    return feed_to(ciphertext, *state_);
}

Ok TlsChannel::feed_to(ByteView ciphertext, PlainReader& reader) {
    state_->buffers.input = ciphertext;
    Ok result = state_->drive(reader);
    state_->buffers.input = {};
    return result;
}

bool TlsChannel::has_output() const { return !state_->buffers.output.empty(); }
Bytes TlsChannel::take_output() { return state_->buffers.output.take(); }
void TlsChannel::recycle(Bytes output) { state_->buffers.output.recycle(std::move(output)); }

bool TlsChannel::handshake_done() const { return state_->done; }

const PublicKey& TlsChannel::remote_key() const {
    DEDLOC_CHECK(state_->done, "the peer is not known before the handshake is done");
    return *state_->check.key;
}

const std::string& TlsChannel::protocol() const { return state_->protocol; }

Ok TlsChannel::encrypt(ByteView plain) {
    if (state_->error) return *state_->error;
    if (!state_->done || state_->closed)
        return make_error(ErrorKind::peer_gone,
                          "the TLS channel is {}",
                          state_->done ? "closed" : "not established yet");
    OutputBuffer& output = state_->buffers.output;
    if (std::exchange(state_->owes_keys, false)) {
        const std::array<std::uint8_t, 5> update = {message_key_update, 0, 0, 1, 0};
        state_->sending->seal(TlsContent::handshake, update, output);
        state_->sending->update_key();
    }
    const std::size_t records = plain.size() / tls_record_bytes_max + 1;
    output.expect(plain.size() + records * record_overhead_bytes);
    while (!plain.empty()) {
        const ByteView piece = plain.first(std::min(plain.size(), tls_record_bytes_max));
        state_->sending->seal(TlsContent::application_data, piece, output);
        plain = plain.subspan(piece.size());
    }
    return {};
}

std::size_t TlsChannel::plain_bytes() const { return state_->plain.size() - state_->plain_read; }

std::size_t TlsChannel::read_plain(std::span<std::uint8_t> out) {
    State& state = *state_;
    const std::size_t count = std::min(out.size(), plain_bytes());
    std::copy_n(
        state.plain.begin() + static_cast<std::ptrdiff_t>(state.plain_read), count, out.begin());
    state.plain_read += count;
    if (plain_bytes() == 0) {
        state.plain.clear();  // keeps the memory for the next feed()
        state.plain_read = 0;
    }
    return count;
}

Bytes TlsChannel::take_plain() {
    State& state = *state_;
    state.plain.erase(state.plain.begin(),
                      state.plain.begin() + static_cast<std::ptrdiff_t>(state.plain_read));
    state.plain_read = 0;
    return std::exchange(state.plain, {});
}

void TlsChannel::close() {
    State& state = *state_;
    if (state.closed || state.error) return;
    state.closed = true;
    if (state.done) state.send_alert(alert_warning, alert_close_notify);
}

bool TlsChannel::closed_by_peer() const { return state_->peer_closed; }

}  // namespace dedloc::security
