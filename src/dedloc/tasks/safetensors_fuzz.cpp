// Files of strangers: never crash, and what is read can be written and read again.

#include "dedloc/base/check.h"
#include "dedloc/tasks/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc;
    const auto read = tasks::parse_safetensors(ByteView(data, size));
    if (!read) return 0;
    for (const auto& [name, tensor] : read->tensors) {
        const auto count = static_cast<std::size_t>(tensor.elements_count());
        const auto values = tensor.floats();
        if (values) DEDLOC_CHECK(values->size() == count, "{}", name);
        if (!values) DEDLOC_CHECK(tensor.integers()->size() == count, "{}", name);
    }
    const Bytes written = tasks::encode_safetensors(*read);
    const auto again = tasks::parse_safetensors(written);
    DEDLOC_CHECK(again.has_value(), "{}", again.error().message());
    DEDLOC_CHECK(again->tensors.size() == read->tensors.size());
    DEDLOC_CHECK(tasks::encode_safetensors(*again) == written);
    return 0;
}
