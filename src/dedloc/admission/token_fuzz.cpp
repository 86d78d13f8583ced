// Tokens from strangers never crash, and none that the authority did not sign is taken.

#include <cstdlib>

#include "dedloc/admission/token.h"
#include "dedloc/base/check.h"
#include "dedloc/security/identity.h"
#include "dedloc/wire/message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc;
    const ByteView bytes(data, size);
    const security::IdentityVerifier verifier;
    admission::Rules rules;
    rules.authority = security::IdentitySigner(security::Identity::generate()).id();
    const auto decoded = wire::decode<admission::Token>(bytes);
    if (decoded) rules.run = decoded->run;  // so that the fuzzer gets past it
    const PeerId presenter = decoded ? decoded->holder : PeerId();
    const auto checked = admission::verify_token(bytes, presenter, 1e9, rules, verifier);
    DEDLOC_CHECK(!checked);
    DEDLOC_CHECK(!checked.refused().words.empty());
    return 0;
}
