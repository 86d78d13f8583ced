#include "dedloc/dht/signed_record.h"

#include "dedloc/base/fields.h"
#include "dedloc/wire/message.h"
#include "dedloc/wire/msgpack.h"

namespace dedloc::dht {

namespace {

constexpr std::string_view subkey_prefix = "/p2p/";

struct SignedPart {
    Bytes key;
    Bytes subkey;
    Bytes payload;
    double expiration = 0;
    DEDLOC_FIELDS(key, subkey, payload, expiration)
};

Bytes message_of(const DhtId& key, ByteView subkey, ByteView payload, WallSeconds expiration) {
    const SignedPart part{.key = to_bytes(key.view()),
                          .subkey = to_bytes(subkey),
                          .payload = to_bytes(payload),
                          .expiration = expiration};
    return wire::encode(part);
}

}  // namespace

Bytes subkey_of(const PeerId& peer) {
    return wire::encode_msgpack(std::string(subkey_prefix) + peer.text());
}

Result<std::optional<PeerId>> owner_of(ByteView subkey) {
    const auto decoded = wire::decode_msgpack(subkey);
    const std::string* text = decoded ? decoded->get<std::string>() : nullptr;
    if (!text || !text->starts_with(subkey_prefix)) return std::optional<PeerId>();
    DEDLOC_TRY(PeerId peer, PeerId::from_text(text->substr(subkey_prefix.size())));
    // Another spelling of the same peer would be a second record of it.
    if (!base::equal(subkey, subkey_of(peer)))
        return make_error(ErrorKind::bad_input, "a subkey names a peer in an unusual spelling");
    return std::optional<PeerId>(std::move(peer));
}

Bytes sign_record(const security::Signer& signer,
                  const DhtId& key,
                  ByteView payload,
                  WallSeconds expiration) {
    const Bytes subkey = subkey_of(signer.id());
    const Bytes message = message_of(key, subkey, payload, expiration);
    wire::MsgpackValue::List parts;
    parts.emplace_back(to_bytes(payload));
    parts.emplace_back(signer.sign(record_domain, message));
    return wire::encode_msgpack(std::move(parts));
}

namespace {

struct SignedValue {
    Bytes payload;
    Bytes signature;
};

std::optional<SignedValue> take_apart(ByteView value) {
    const auto decoded = wire::decode_msgpack(value);
    const auto* parts = decoded ? decoded->get<wire::MsgpackValue::List>() : nullptr;
    if (!parts || parts->size() != 2) return std::nullopt;
    const Bytes* payload = (*parts)[0].get<Bytes>();
    const Bytes* signature = (*parts)[1].get<Bytes>();
    if (!payload || !signature) return std::nullopt;
    return SignedValue{.payload = *payload, .signature = *signature};
}

}  // namespace

Result<CheckedRecord> check_record(const security::Verifier& verifier,
                                   const DhtId& key,
                                   ByteView subkey,
                                   ByteView value,
                                   WallSeconds expiration) {
    DEDLOC_TRY(std::optional<PeerId> owner, owner_of(subkey));
    if (!owner) return CheckedRecord{.signer = std::nullopt, .payload = to_bytes(value)};
    const auto forged = [&owner](std::string_view why) {
        return make_error(
            ErrorKind::denied, "a record in the name of {} {}", owner->short_text(), why);
    };
    std::optional<SignedValue> parts = take_apart(value);
    if (!parts) return forged("is not signed");
    const Bytes message = message_of(key, subkey, parts->payload, expiration);
    if (!verifier.verify(*owner, record_domain, message, parts->signature))
        return forged("is not signed by it");
    return CheckedRecord{.signer = std::move(owner), .payload = std::move(parts->payload)};
}

std::vector<SignedEntry> signed_entries(const Stored& stored) {
    std::vector<SignedEntry> entries;
    for (const auto& [subkey, item] : stored.dictionary) {
        auto owner = owner_of(subkey);
        if (!owner || !owner->has_value()) continue;
        auto parts = take_apart(item.value);
        if (!parts) continue;
        entries.push_back({.signer = std::move(**owner),
                           .payload = std::move(parts->payload),
                           .expiration = item.expiration});
    }
    return entries;
}

}  // namespace dedloc::dht
