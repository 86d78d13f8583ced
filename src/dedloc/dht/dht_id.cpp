#include "dedloc/dht/dht_id.h"

#include <bit>

#include "dedloc/security/hash.h"
#include "dedloc/wire/msgpack.h"

namespace dedloc::dht {

DhtId DhtId::of_bytes(ByteView source) { return DhtId{security::sha1(source)}; }

DhtId DhtId::of_text(std::string_view key) { return of_bytes(wire::encode_msgpack(key)); }

DhtId DhtId::random(Random& random) {
    DhtId id;
    const Bytes bytes = random.bytes(dht_id_bytes);
    std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
    return id;
}

Result<DhtId> DhtId::from(ByteView bytes) {
    if (bytes.size() != dht_id_bytes)
        return make_error(
            ErrorKind::bad_input, "a DHT id has {} bytes, not {}", dht_id_bytes, bytes.size());
    DhtId id;
    std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
    return id;
}

DhtId distance(const DhtId& a, const DhtId& b) {
    DhtId out;
    for (std::size_t i = 0; i < dht_id_bytes; ++i)
        out.bytes[i] = static_cast<std::uint8_t>(a.bytes[i] ^ b.bytes[i]);
    return out;
}

bool nearer(const DhtId& target, const DhtId& a, const DhtId& b) {
    for (std::size_t i = 0; i < dht_id_bytes; ++i) {
        const int from_a = a.bytes[i] ^ target.bytes[i];
        const int from_b = b.bytes[i] ^ target.bytes[i];
        if (from_a != from_b) return from_a < from_b;
    }
    return false;
}

int common_prefix_bits(const DhtId& a, const DhtId& b) {
    for (std::size_t i = 0; i < dht_id_bytes; ++i) {
        const auto different = static_cast<std::uint8_t>(a.bytes[i] ^ b.bytes[i]);
        if (different != 0) return static_cast<int>(i) * 8 + std::countl_zero(different);
    }
    return dht_id_bits;
}

}  // namespace dedloc::dht
