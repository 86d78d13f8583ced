#include "dedloc/wire/identify.h"

namespace dedloc::wire {

Bytes envelope_signed_bytes(std::string_view domain, ByteView payload_type, ByteView payload) {
    Bytes bytes;
    for (const ByteView part : {as_bytes(domain), payload_type, payload}) {
        put_varint(bytes, part.size());
        base::append(bytes, part);
    }
    return bytes;
}

}  // namespace dedloc::wire
