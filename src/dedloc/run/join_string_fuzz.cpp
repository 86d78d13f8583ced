// Join strings from strangers: never crash; what parses survives the trip back. The input is also
// tried with a right prefix and checksum, so that the fuzzer gets past them.

#include <cstdlib>

#include "dedloc/base/check.h"
#include "dedloc/run/join_string.h"
#include "dedloc/security/hash.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc;
    const ByteView bytes(data, size);
    (void)run::parse_join_string(as_text(bytes));

    Bytes assisted = to_bytes(bytes);
    base::append(assisted, security::sha256(bytes).view().first(4));
    const auto join = run::parse_join_string("dedloc1" + base::to_base64url(assisted));
    if (!join) return 0;
    DEDLOC_CHECK(join->addresses.size() <= run::join_peers_max * run::join_addresses_per_peer_max);
    const std::string text = run::to_text(*join);
    const auto again = run::parse_join_string(text);
    DEDLOC_CHECK(again.has_value());
    DEDLOC_CHECK(again->run == join->run && again->secret == join->secret);
    DEDLOC_CHECK(run::to_text(*again) == text);
    return 0;
}
