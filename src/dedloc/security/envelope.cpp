#include "dedloc/security/envelope.h"

#include "dedloc/wire/identify.h"

namespace dedloc::security {

Bytes seal_envelope(const Identity& identity,
                    std::string_view domain,
                    ByteView payload_type,
                    ByteView payload) {
    wire::Envelope envelope;
    envelope.public_key = identity.public_key().protobuf();
    envelope.payload_type = to_bytes(payload_type);
    envelope.payload = to_bytes(payload);
    envelope.signature = identity.sign(wire::envelope_signed_bytes(domain, payload_type, payload));
    return wire::encode(envelope);
}

Result<OpenedEnvelope> open_envelope(ByteView bytes,
                                     std::string_view domain,
                                     ByteView payload_type) {
    const auto broken = [](std::string_view what) {
        return make_error(ErrorKind::peer_broke_protocol, "a signed envelope {}", what);
    };
    if (bytes.size() > envelope_bytes_max) return broken("is too large");
    auto envelope = wire::decode<wire::Envelope>(bytes);
    if (!envelope) return broken("cannot be read: " + envelope.error().message());
    if (!base::equal(envelope->payload_type, payload_type)) return broken("is of another type");
    auto signer = PublicKey::from_protobuf(envelope->public_key);
    if (!signer) return broken("has no usable key: " + signer.error().message());
    const Bytes covered =
        wire::envelope_signed_bytes(domain, envelope->payload_type, envelope->payload);
    if (!signer->verify(covered, envelope->signature)) return broken("has a false signature");
    return OpenedEnvelope{*std::move(signer), std::move(envelope->payload)};
}

}  // namespace dedloc::security
