// Records as strangers write them, against hivemind's validators. The first byte says how long the
// subkey is; the rest is the value.

#include <cstdlib>

#include "dedloc/dht/validators.h"

namespace {

using namespace dedloc;
using namespace dedloc::dht;

const ValidatorChain& fuzzed_validators() {
    using Kind = ValueRule::Kind;
    static const ValueRule number{.kind = Kind::integer, .min = 0};
    static const ValueRule owner{.kind = Kind::bytes, .owner = true};
    static const ValueRule list{.kind = Kind::list, .of = {number}};
    static const ValidatorChain all{
        {std::make_shared<RsaSignatureValidator>(),
         std::make_shared<SchemaValidator>(std::map<std::string, FieldRule>{
             {"field", {.value = list, .subkey = owner}}, {"other", {.value = number}}})}};
    return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::size_t subkey = std::min<std::size_t>(data[0], size - 1);
    Record record;
    record.key = to_bytes(DhtId::of_text(data[0] % 2 ? "field" : "other").view());
    record.subkey.assign(data + 1, data + 1 + subkey);
    record.value.assign(data + 1 + subkey, data + size);
    record.expiration = 1;
    const bool good = fuzzed_validators().validate(record);
    if (good != fuzzed_validators().validate(record)) std::abort();
    // A stripped record has nothing left to strip that it had before.
    const Bytes stripped = fuzzed_validators().strip(record);
    if (stripped.size() > record.value.size()) std::abort();
    return 0;
}
