// config.json comes from wherever people found it: never crash; what is read is a model.

#include "dedloc/base/bytes.h"
#include "dedloc/base/check.h"
#include "dedloc/tasks/language_model/decoder_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc;
    const auto sizes = tasks::decoder_from_json(as_text(ByteView(data, size)));
    if (!sizes) return 0;
    DEDLOC_CHECK(tasks::check(*sizes).has_value());
    DEDLOC_CHECK(tasks::parameters_count(*sizes) > 0);
    const auto again = tasks::decoder_from_json(tasks::decoder_json(*sizes, {}));
    DEDLOC_CHECK(again && again->hidden == sizes->hidden);
    return 0;
}
