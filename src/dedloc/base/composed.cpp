#include "dedloc/base/composed.h"

#include <algorithm>
#include <cstdlib>
#include <utf8proc.h>

namespace dedloc::base {

std::string composed(std::string_view text) {
    const bool ascii = std::ranges::all_of(
        text, [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
    if (ascii) return std::string(text);
    utf8proc_uint8_t* out = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                     static_cast<utf8proc_ssize_t>(text.size()),
                     &out,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (size < 0) return std::string(text);
    std::string result(reinterpret_cast<const char*>(out), static_cast<std::size_t>(size));
    std::free(out);
    return result;
}

}  // namespace dedloc::base
