#include "dedloc/security/noise.h"

#include <algorithm>
#include <array>

#include "dedloc/base/check.h"
#include "dedloc/wire/noise_payload.h"

namespace dedloc::security {
namespace {

constexpr std::string_view noise_signature_prefix = "noise-libp2p-static-key:";
constexpr std::size_t size_bytes = 2;

Bytes bytes_to_sign(ByteView static_key) {
    Bytes bytes = to_bytes(noise_signature_prefix);
    base::append(bytes, static_key);
    return bytes;
}

std::size_t message_size(ByteView header) { return header[0] * std::size_t{256} + header[1]; }

std::array<std::uint8_t, size_bytes> size_header(std::size_t size) {
    return {static_cast<std::uint8_t>(size >> 8), static_cast<std::uint8_t>(size)};
}

// Keeps what nobody reads on the spot.
class Keeper final : public PlainReader {
  public:
    explicit Keeper(Bytes& kept) : kept_(kept) {}
    Ok take(ByteView plain) override {
        base::append(kept_, plain);
        return {};
    }

  private:
    Bytes& kept_;
};

}  // namespace

std::shared_ptr<const NoiseContext> NoiseContext::make(const Identity& identity,
                                                       std::vector<std::string> muxers,
                                                       RandomFill random) {
    return std::shared_ptr<const NoiseContext>(
        new NoiseContext(identity, std::move(muxers), std::move(random)));
}

NoiseContext::NoiseContext(const Identity& identity,
                           std::vector<std::string> muxers,
                           RandomFill random)
    : random_(std::move(random)),
      static_(X25519Key::generate(random_)),
      muxers_(std::move(muxers)) {
    wire::NoisePayload payload;
    payload.identity_key = identity.public_key().protobuf();
    payload.identity_signature = identity.sign(bytes_to_sign(static_.public_bytes()));
    if (!muxers_.empty()) payload.extensions = wire::NoiseExtensions{.stream_muxers = muxers_};
    payload_ = wire::encode(payload);
    DEDLOC_CHECK(payload_.size() + 256 <= noise_handshake_bytes_max);
}

NoiseChannel::NoiseChannel(NoiseHandshake::Role role,
                           std::shared_ptr<const NoiseContext> context,
                           std::optional<PeerId> expected)
    : context_(std::move(context)),
      expected_(std::move(expected)),
      role_(role),
      handshake_(role, context_->static_, X25519Key::generate(context_->random_)) {}

NoiseChannel NoiseChannel::initiator(std::shared_ptr<const NoiseContext> context,
                                     std::optional<PeerId> expected) {
    NoiseChannel channel(NoiseHandshake::Role::initiator, std::move(context), std::move(expected));
    const Ok sent = channel.send_handshake_message({});
    DEDLOC_CHECK(sent.has_value());  // nothing was agreed on that could be wrong
    return channel;
}

NoiseChannel NoiseChannel::responder(std::shared_ptr<const NoiseContext> context) {
    return NoiseChannel(NoiseHandshake::Role::responder, std::move(context), std::nullopt);
}

Error NoiseChannel::dead(Error why) {
    error_ = why;
    input_ = {};
    return why;
}

Ok NoiseChannel::send_handshake_message(ByteView payload) {
    DEDLOC_TRY(const Bytes message, handshake_.write(payload));
    output_.append(size_header(message.size()));
    output_.append(message);
    return {};
}

std::string NoiseChannel::choose_muxer(const std::vector<std::string>& theirs) const {
    const bool we_began = role_ == NoiseHandshake::Role::initiator;
    const auto& wishes = we_began ? context_->muxers_ : theirs;
    const auto& offers = we_began ? theirs : context_->muxers_;
    for (const std::string& muxer : wishes)
        if (std::find(offers.begin(), offers.end(), muxer) != offers.end()) return muxer;
    return std::string(multistream_follows);
}

Ok NoiseChannel::check_payload(ByteView bytes) {
    const auto payload = wire::decode<wire::NoisePayload>(bytes);
    if (!payload) return noise_refused(payload.error().message());
    auto key = PublicKey::from_protobuf(payload->identity_key);
    if (!key) return noise_refused(key.error().message());
    if (!key->verify(bytes_to_sign(handshake_.remote_static()), payload->identity_signature))
        return noise_refused("the identity's signature of the Noise key is false");
    if (expected_ && key->peer_id() != *expected_)
        return make_error(ErrorKind::conflict,
                          "peer {} was dialled, but {} answered",
                          expected_->text(),
                          key->peer_id().text());
    const auto& extensions = payload->extensions;
    muxer_ = choose_muxer(extensions ? extensions->stream_muxers : std::vector<std::string>());
    remote_key_ = *std::move(key);
    return {};
}

Ok NoiseChannel::receive_handshake_message(ByteView message) {
    DEDLOC_TRY(const Bytes payload, handshake_.read(message));
    // The first message says nothing: it is read by all, and signed by nobody.
    if (!handshake_.remote_static().empty()) DEDLOC_TRY_VOID(check_payload(payload));
    if (!handshake_.done()) DEDLOC_TRY_VOID(send_handshake_message(context_->payload_));
    if (handshake_.done()) ciphers_ = handshake_.split();
    return {};
}

Ok NoiseChannel::receive_message(ByteView message, PlainReader& reader) {
    if (!ciphers_) return receive_handshake_message(message);
    // Not initialized: it is written by decrypt().
    std::array<std::uint8_t, noise_plain_bytes_max> room;
    const std::size_t size = message.size() - std::min(message.size(), noise_tag_bytes);
    std::span<std::uint8_t> place = reader.place();
    if (place.size() < size) place = room;
    place = place.first(size);
    if (!ciphers_->receiving.decrypt({}, message, place))
        return make_error(ErrorKind::peer_broke_protocol,
                          "Noise connection failed: a message was changed on its way");
    if (place.empty()) return {};
    Ok taken = reader.take(place);
    reader_failed_ = !taken;
    return taken;
}

Ok NoiseChannel::feed(ByteView bytes) {
    if (ciphers_) plain_.reserve(plain_.size() + input_.size() + bytes.size());
    Keeper keeper(plain_);
    return feed_to(bytes, keeper);
}

Ok NoiseChannel::feed_to(ByteView bytes, PlainReader& reader) {
    if (error_) return *error_;
    reader_failed_ = false;
    Ok taken = receive_messages(bytes, reader);
    // The reader's errors are not the channel's: that can still be used to say why it ends.
    if (taken || reader_failed_) return taken;
    return dead(std::move(taken).error());
}

Ok NoiseChannel::receive_messages(ByteView bytes, PlainReader& reader) {
    while (!bytes.empty()) {
        // Whole messages are decrypted where they lie; only a piece of one is kept.
        const ByteView begun = input_.empty() ? bytes : ByteView(input_);
        std::size_t wanted = size_bytes;
        if (begun.size() >= size_bytes) {
            const std::size_t size = message_size(begun);
            if (!ciphers_ && size > noise_handshake_bytes_max)
                return noise_refused("a message is too long, or this is no Noise");
            wanted += size;
        }
        if (input_.empty() && bytes.size() >= wanted && bytes.size() >= size_bytes) {
            DEDLOC_TRY_VOID(
                receive_message(bytes.subspan(size_bytes, wanted - size_bytes), reader));
            bytes = bytes.subspan(wanted);
            continue;
        }
        const std::size_t missing = std::min(bytes.size(), wanted - input_.size());
        base::append(input_, bytes.first(missing));
        bytes = bytes.subspan(missing);
        if (input_.size() < size_bytes) continue;
        if (input_.size() < size_bytes + message_size(input_)) continue;
        const Bytes whole = std::exchange(input_, {});
        DEDLOC_TRY_VOID(receive_message(ByteView(whole).subspan(size_bytes), reader));
    }
    return {};
}

const PublicKey& NoiseChannel::remote_key() const {
    DEDLOC_CHECK(handshake_done(), "the peer is not known before the handshake is done");
    return *remote_key_;
}

Ok NoiseChannel::encrypt(ByteView plain) {
    if (error_) return *error_;
    if (!ciphers_ || closed_)
        return make_error(ErrorKind::peer_gone,
                          "the Noise channel is {}",
                          ciphers_ ? "closed" : "not established yet");
    const std::size_t messages = (plain.size() + noise_plain_bytes_max - 1) / noise_plain_bytes_max;
    output_.expect(plain.size() + messages * (size_bytes + noise_tag_bytes));
    for (std::size_t left = messages; left > 0; --left) {
        // Equal pieces: no message of a few bytes after a large one.
        const ByteView piece = plain.first((plain.size() + left - 1) / left);
        const std::size_t size = piece.size() + noise_tag_bytes;
        output_.append(size_header(size));
        ciphers_->sending.encrypt({}, piece, output_.grow(size));
        plain = plain.subspan(piece.size());
    }
    return {};
}

std::size_t NoiseChannel::read_plain(std::span<std::uint8_t> out) {
    const std::size_t count = std::min(out.size(), plain_bytes());
    std::copy_n(plain_.begin() + static_cast<std::ptrdiff_t>(plain_read_), count, out.begin());
    plain_read_ += count;
    if (plain_bytes() == 0) {
        plain_.clear();  // keeps the memory for the next feed()
        plain_read_ = 0;
    }
    return count;
}

Bytes NoiseChannel::take_plain() {
    plain_.erase(plain_.begin(), plain_.begin() + static_cast<std::ptrdiff_t>(plain_read_));
    plain_read_ = 0;
    return std::exchange(plain_, {});
}

}  // namespace dedloc::security
