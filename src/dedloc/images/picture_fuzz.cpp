// Pictures of strangers: never crash, never more pixels than the header may say.

#include "dedloc/base/check.h"
#include "dedloc/images/picture.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc;
    const ByteView file(data, size);
    const auto inspected = images::inspect(file);
    // The fuzzer's memory and time end before our limits.
    if (inspected && std::uint64_t{inspected->width} * inspected->height > (1u << 20)) return 0;
    const auto picture = images::decode(file);
    if (!picture) return 0;
    DEDLOC_CHECK(inspected.has_value());
    DEDLOC_CHECK(picture->width == inspected->width && picture->height == inspected->height);
    DEDLOC_CHECK(picture->rgb.size() == std::size_t{3} * picture->width * picture->height);
    const auto again = images::decode(images::encode_png(*picture));
    DEDLOC_CHECK(again.has_value() && again->rgb == picture->rgb);
    return 0;
}
