// Any bytes as MessagePack and as a DHT dictionary. What is read is written and read alike, but
// for NaN, which does not equal itself: hence bytes are compared.

#include <cstdlib>

#include "dedloc/wire/msgpack.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc::wire;
    const dedloc::ByteView bytes(data, size);
    if (const auto value = decode_msgpack(bytes)) {
        const auto canonical = encode_msgpack(*value);
        const auto again = decode_msgpack(canonical);
        if (!again || encode_msgpack(*again) != canonical) std::abort();
        (void)value->find("key");
        if (const auto descriptor = tensor_descriptor_from(*value)) {
            const auto written = tensor_descriptor_from(to_msgpack(*descriptor));
            if (!written || *written != *descriptor) std::abort();
        }
    }
    if (const auto dictionary = decode_dht_dictionary(bytes)) {
        const auto canonical = encode_dht_dictionary(*dictionary);
        const auto again = decode_dht_dictionary(canonical);
        if (!again || encode_dht_dictionary(*again) != canonical) std::abort();
    }
    return 0;
}
