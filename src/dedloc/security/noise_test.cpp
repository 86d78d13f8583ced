#include "dedloc/security/noise.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "dedloc/base/random.h"
#include "dedloc/security/channel_checks_testing.h"
#include "dedloc/security/identity_testing.h"
#include "dedloc/wire/noise_payload.h"
#include "dedloc/wire/varint.h"

namespace dedloc::security {
namespace {

// Sends message number `index` of a vector from one side to the other, who must find the payload.
void expect_handshake_message(NoiseHandshake& from,
                              NoiseHandshake& to,
                              const nlohmann::json& vector,
                              std::size_t index) {
    const auto& step = vector["messages"][index];
    const auto message = from.write(hex(step["payload"]));
    ASSERT_TRUE(message);
    EXPECT_EQ(base::to_hex(*message), step["ciphertext"].get<std::string>());
    const auto payload = to.read(*message);
    ASSERT_TRUE(payload) << payload.error().message();
    EXPECT_EQ(*payload, hex(step["payload"]));
}

TEST(NoiseHandshake, agrees_with_the_published_vectors) {
    std::ifstream file(DEDLOC_TEST_DATA "/vectors/noise_vectors.json");
    const auto vectors = nlohmann::json::parse(file)["vectors"];
    ASSERT_EQ(vectors.size(), 4u);
    for (const auto& vector : vectors) {
        const Bytes prologue = hex(vector["prologue"]);
        NoiseHandshake initiator(NoiseHandshake::Role::initiator,
                                 X25519Key::from_private(hex(vector["initiator_static"])),
                                 X25519Key::from_private(hex(vector["initiator_ephemeral"])),
                                 prologue);
        NoiseHandshake responder(NoiseHandshake::Role::responder,
                                 X25519Key::from_private(hex(vector["responder_static"])),
                                 X25519Key::from_private(hex(vector["responder_ephemeral"])),
                                 prologue);
        expect_handshake_message(initiator, responder, vector, 0);
        expect_handshake_message(responder, initiator, vector, 1);
        expect_handshake_message(initiator, responder, vector, 2);
        ASSERT_TRUE(initiator.done() && responder.done());
        EXPECT_EQ(initiator.hash(), responder.hash());
        auto ours = initiator.split();
        auto theirs = responder.split();
        for (std::size_t i = 3; i < vector["messages"].size(); ++i) {
            const auto& step = vector["messages"][i];
            auto& sender = i % 2 == 1 ? ours.sending : theirs.sending;
            auto& receiver = i % 2 == 1 ? theirs.receiving : ours.receiving;
            const Bytes payload = hex(step["payload"]);
            Bytes ciphertext(payload.size() + noise_tag_bytes);
            sender.encrypt({}, payload, ciphertext);
            EXPECT_EQ(base::to_hex(ciphertext), step["ciphertext"].get<std::string>());
            Bytes plain(payload.size());
            EXPECT_TRUE(receiver.decrypt({}, ciphertext, plain));
            EXPECT_EQ(plain, payload);
        }
    }
}

TEST(NoiseHandshake, diffie_hellman_is_that_of_rfc_7748) {
    const Bytes a =
        *base::from_hex("77076d0a7318a57d3c16c17251b26645c6df8b07c3d9a1b3a0d2b3c1e4a1f3b5");
    const X25519Key one = X25519Key::from_private(a);
    // The scalar and the point of §5.2, first test.
    const X25519Key key = X25519Key::from_private(
        *base::from_hex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"));
    const auto shared = key.shared_with(
        *base::from_hex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"));
    ASSERT_TRUE(shared);
    EXPECT_EQ(shared->hex(), "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
    EXPECT_EQ(one.shared_with(key.public_bytes()), key.shared_with(one.public_bytes()));
    EXPECT_FALSE(key.shared_with(Bytes(32, 0)));  // of low order: everybody knows the secret
    EXPECT_FALSE(key.shared_with(Bytes(31, 9)));
}

TEST(NoiseHandshake, a_changed_bit_in_any_message_is_noticed) {
    for (int changed = 0; changed < 3; ++changed) {
        for (std::size_t position = 0; position < 200; position += 7) {
            const auto key = [](std::uint8_t fill) {
                return X25519Key::from_private(Bytes(32, fill));
            };
            NoiseHandshake sides[2] = {
                NoiseHandshake(NoiseHandshake::Role::initiator, key(1), key(2)),
                NoiseHandshake(NoiseHandshake::Role::responder, key(3), key(4))};
            bool refused = false;
            for (int i = 0; i < 3 && !refused; ++i) {
                auto message = sides[i % 2].write(Bytes(9, 'p'));
                ASSERT_TRUE(message);
                if (i == changed) (*message)[position % message->size()] ^= 0x20;
                refused = !sides[1 - i % 2].read(*message);
            }
            EXPECT_TRUE(refused) << changed << " " << position;
        }
    }
}

// ------------------------------------------------------------------------------------- channel

using NoisePair = ChannelPair<NoiseChannel>;

NoisePair noise_to_bob(std::optional<PeerId> expected = std::nullopt,
                       std::vector<std::string> muxers_a = NoiseContext::default_muxers(),
                       std::vector<std::string> muxers_b = NoiseContext::default_muxers()) {
    return {NoiseChannel::initiator(NoiseContext::make(alice, std::move(muxers_a)),
                                    std::move(expected)),
            NoiseChannel::responder(NoiseContext::make(bob, std::move(muxers_b)))};
}

TEST(Noise, both_sides_learn_who_the_other_is_however_the_bytes_are_cut) {
    for (const std::size_t piece : {1u, 2u, 3u, 5u, 33u, 34u, 64u, 1000u, 1u << 20}) {
        NoisePair pair = noise_to_bob(bob.id());
        const PairOutcome outcome = carry(pair, piece);
        EXPECT_TRUE(outcome.initiator) << piece;
        EXPECT_TRUE(outcome.responder) << piece;
        ASSERT_TRUE(pair.initiator.handshake_done() && pair.responder.handshake_done());
        EXPECT_EQ(pair.initiator.remote_peer(), bob.id());
        EXPECT_EQ(pair.responder.remote_peer(), alice.id());
        EXPECT_EQ(pair.initiator.protocol(), "/yamux/1.0.0");
        EXPECT_EQ(pair.responder.protocol(), "/yamux/1.0.0");
        ASSERT_TRUE(pair.initiator.encrypt(as_bytes("hello")));
        carry(pair, piece);
        EXPECT_EQ(pair.responder.take_plain(), to_bytes("hello"));
    }
}

TEST(Noise, another_peer_than_the_one_dialled_is_refused_and_does_not_learn_who_called) {
    NoisePair pair = noise_to_bob(alice.id());
    const PairOutcome outcome = carry(pair);
    ASSERT_FALSE(outcome.initiator);
    EXPECT_EQ(outcome.initiator.error().kind(), ErrorKind::conflict);
    EXPECT_NE(outcome.initiator.error().message().find(bob.id().text()), std::string::npos);
    EXPECT_FALSE(pair.initiator.handshake_done());
    EXPECT_FALSE(pair.responder.handshake_done());
    EXPECT_FALSE(pair.initiator.feed(as_bytes("x")));  // dead, and says so again
    EXPECT_FALSE(pair.initiator.encrypt(as_bytes("x")));
    EXPECT_FALSE(pair.initiator.has_output());
}

TEST(Noise, the_initiators_first_muxer_that_the_responder_has_is_chosen_else_multistream_follows) {
    const auto chosen = [](std::vector<std::string> a, std::vector<std::string> b) {
        NoisePair pair = noise_to_bob(std::nullopt, std::move(a), std::move(b));
        carry(pair);
        EXPECT_TRUE(pair.initiator.handshake_done() && pair.responder.handshake_done());
        EXPECT_EQ(pair.initiator.protocol(), pair.responder.protocol());
        return pair.initiator.protocol();
    };
    EXPECT_EQ(chosen({"b", "a"}, {"a", "b"}), "b");
    EXPECT_EQ(chosen({"c", "a"}, {"a", "b"}), "a");
    EXPECT_EQ(chosen({"a"}, {"b"}), multistream_follows);
    EXPECT_EQ(chosen({}, {"b"}), multistream_follows);
    EXPECT_EQ(chosen({"a"}, {}), multistream_follows);
}

TEST(Noise, megabytes_arrive_as_they_were_sent_both_ways) {
    NoisePair pair = noise_to_bob();
    carry(pair);
    base::Random random(7);
    for (const std::size_t size :
         {std::size_t{1}, noise_plain_bytes_max, noise_plain_bytes_max + 1, std::size_t{1} << 20}) {
        for (auto [from, to] : {std::pair{&pair.initiator, &pair.responder},
                                std::pair{&pair.responder, &pair.initiator}}) {
            const Bytes data = random.bytes(size);
            ASSERT_TRUE(from->encrypt(data));
            const Bytes ciphertext = from->take_output();
            const std::size_t messages = (size + noise_plain_bytes_max - 1) / noise_plain_bytes_max;
            EXPECT_EQ(ciphertext.size(), size + messages * (2 + noise_tag_bytes));
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

TEST(Noise, data_in_the_flight_that_ends_the_handshake_is_not_lost) {
    expect_early_data_is_kept(noise_to_bob());
}

TEST(Noise, a_changed_or_repeated_message_ends_the_channel) {
    for (const std::size_t position : {0u, 1u, 2u, 11u, 12u, 27u})
        expect_a_flipped_bit_ends_it(noise_to_bob(), 28u, position);
    expect_a_repeated_message_ends_it(noise_to_bob());
}

TEST(Noise, garbage_is_refused_and_not_waited_for) {
    NoiseChannel responder = NoiseChannel::responder(NoiseContext::make(bob));
    const Ok fed = responder.feed(as_bytes("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"));
    ASSERT_FALSE(fed);  // "GE": 18,245 bytes
    EXPECT_EQ(fed.error().kind(), ErrorKind::peer_broke_protocol);
    NoiseChannel early = NoiseChannel::responder(NoiseContext::make(bob));
    EXPECT_FALSE(early.encrypt(as_bytes("x")));
    const Ok too_short = early.feed(Bytes(2, 0));
    ASSERT_FALSE(too_short);
}

TEST(Noise, nothing_goes_out_after_closing) {
    NoisePair pair = noise_to_bob();
    carry(pair);
    pair.initiator.close();
    EXPECT_FALSE(pair.initiator.encrypt(as_bytes("x")));
    ASSERT_TRUE(pair.responder.encrypt(as_bytes("still read")));
    carry(pair);
    EXPECT_EQ(pair.initiator.take_plain(), to_bytes("still read"));
}

// --------------------------------------------------------------- initiators that are not ours

// An initiator whose payload is what `make` says of its static key.
Ok talk(NoiseChannel& responder, const std::function<Bytes(ByteView static_key)>& make) {
    const X25519Key statics = X25519Key::from_private(Bytes(32, 77));
    NoiseHandshake initiator(
        NoiseHandshake::Role::initiator, statics, X25519Key::from_private(Bytes(32, 78)));
    const auto send = [&](const Bytes& message) {
        Bytes framed;
        base::put_u16_be(framed, static_cast<std::uint16_t>(message.size()));
        base::append(framed, message);
        return responder.feed(framed);
    };
    DEDLOC_TRY(const Bytes first, initiator.write(as_bytes("an early payload is ignored")));
    DEDLOC_TRY_VOID(send(first));
    DEDLOC_TRY_VOID(initiator.read(ByteView(responder.take_output()).subspan(2)));
    DEDLOC_TRY(const Bytes third, initiator.write(make(statics.public_bytes())));
    return send(third);
}

Bytes signed_text(ByteView static_key) {
    Bytes bytes = to_bytes("noise-libp2p-static-key:");
    base::append(bytes, static_key);
    return bytes;
}

Bytes encode_payload(Bytes key, Bytes signature) {
    wire::NoisePayload payload;
    payload.identity_key = std::move(key);
    payload.identity_signature = std::move(signature);
    return wire::encode(payload);
}

TEST(Noise, whoever_shows_another_peers_key_or_none_is_refused) {
    const auto refused = [](const std::function<Bytes(ByteView)>& make) {
        NoiseChannel responder = NoiseChannel::responder(NoiseContext::make(bob));
        const Ok result = talk(responder, make);
        EXPECT_FALSE(responder.handshake_done());
        return !result && result.error().kind() == ErrorKind::peer_broke_protocol;
    };
    const Bytes key = alice.public_key().protobuf();
    EXPECT_TRUE(refused([&](ByteView) { return encode_payload(key, Bytes(64, 5)); }));
    EXPECT_TRUE(refused(
        [&](ByteView statics) { return encode_payload(key, bob.sign(signed_text(statics))); }));
    EXPECT_TRUE(refused([&](ByteView statics) {  // without the prefix
        return encode_payload(key, alice.sign(statics));
    }));
    EXPECT_TRUE(refused([&](ByteView) {  // seen elsewhere
        return encode_payload(key, alice.sign(signed_text(Bytes(32, 9))));
    }));
    EXPECT_TRUE(refused([](ByteView) { return Bytes(); }));
    EXPECT_TRUE(refused([](ByteView) { return Bytes(100, 0xff); }));
    NoiseChannel responder = NoiseChannel::responder(NoiseContext::make(bob));
    const Ok good = talk(responder, [&](ByteView statics) {
        return encode_payload(key, alice.sign(signed_text(statics)));
    });
    ASSERT_TRUE(good) << good.error().message();
    EXPECT_EQ(responder.remote_peer(), alice.id());
    EXPECT_EQ(responder.protocol(), multistream_follows);  // it named no muxers
}

TEST(Noise, peers_with_rsa_and_ecdsa_identities_are_known_by_the_hash_of_their_key) {
    for (const auto& [key, type] :
         {std::pair{EVP_RSA_gen(2048), 0}, std::pair{EVP_EC_gen("P-256"), 3}}) {
        const Bytes message = spki_message(key, static_cast<std::uint8_t>(type));
        NoiseChannel responder = NoiseChannel::responder(NoiseContext::make(bob));
        const Ok good = talk(responder, [&, pair = key](ByteView statics) {
            return encode_payload(message, sign_with(pair, signed_text(statics)));
        });
        ASSERT_TRUE(good) << good.error().message();
        EXPECT_EQ(responder.remote_key().protobuf(), message);
        EXPECT_EQ(responder.remote_peer(), peer_id_of(message));
        EXPECT_EQ(responder.remote_peer().bytes()[0], 0x12);
        EVP_PKEY_free(key);
    }
}

}  // namespace
}  // namespace dedloc::security
