// Records from somebody on the wire, who has no key, and from a peer, who has: the first byte
// chooses the suite. Nothing opens but what was sealed, and whatever was sealed opens to the same
// bytes.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "dedloc/security/tls_records.h"

namespace {

using namespace dedloc;
using namespace dedloc::security;

constexpr std::array<std::string_view, 3> suites = {
    "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"};

void require(bool holds) {
    if (!holds) std::abort();
}

TlsRecords records(std::size_t suite, TlsRecords::Direction direction) {
    const TlsSuite chosen = *TlsSuite::by_name(suites[suite]);
    const std::size_t secret_bytes = suite == 1 ? 48 : 32;
    return TlsRecords(chosen, Bytes(secret_bytes, 7), direction);
}

void open_what_came(std::size_t suite, ByteView bytes) {
    auto receiving = records(suite, TlsRecords::Direction::open);
    Bytes place(tls_record_bytes_max + tls_record_expansion_max);
    const auto size = TlsRecords::record_size(bytes);
    if (!size || *size == 0) return;
    require(*size <= tls_header_bytes + tls_record_bytes_max + tls_record_expansion_max);
    if (*size > bytes.size()) return;
    require(!receiving.open(bytes.first(*size), place));
}

void seal_and_open(std::size_t suite, ByteView bytes) {
    auto sending = records(suite, TlsRecords::Direction::seal);
    auto receiving = records(suite, TlsRecords::Direction::open);
    const ByteView plain = bytes.first(std::min(bytes.size(), tls_record_bytes_max));
    OutputBuffer out;
    sending.seal(TlsContent::application_data, plain, out);
    Bytes place(tls_record_bytes_max + tls_record_expansion_max);
    const Bytes sealed = out.take();
    require(TlsRecords::record_size(sealed).value() == sealed.size());
    const auto opened = receiving.open(sealed, place);
    require(opened && opened->type == TlsContent::application_data);
    require(std::ranges::equal(opened->plain, plain));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::size_t suite = data[0] % suites.size();
    const ByteView bytes(data + 1, size - 1);
    open_what_came(suite, bytes);
    seal_and_open(suite, bytes);
    return 0;
}
