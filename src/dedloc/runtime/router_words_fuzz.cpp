// A helper that was taken over by somebody in the local network may say anything.

#include <cstdlib>

#include "dedloc/runtime/router_words.h"

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc::runtime;
    const std::string_view said(reinterpret_cast<const char*>(data), size);
    (void)parse_unmapped(said);
    const auto mapping = parse_mapped(said, 4001);
    if (mapping) {
        require(mapping->external.port != 0 && mapping->control.size() <= router_url_bytes_max);
        const auto again = parse_mapped(answer_line(*mapping), 4001);
        require(again && again->external == mapping->external && again->lease == mapping->lease &&
                again->protocol == mapping->protocol && again->control == mapping->control);
    }
    const std::string refused = refused_line(said);
    require(refused.size() <= router_answer_bytes_max);
    require(!parse_mapped(refused, 4001));
    return 0;
}
