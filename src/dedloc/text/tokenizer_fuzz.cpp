// Tokenizer files come from other peers, too: never crash; what is read encodes any text, and ids
// stay in range.

#include <algorithm>

#include "dedloc/base/check.h"
#include "dedloc/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc;
    const auto tokenizer = text::Tokenizer::parse(ByteView(data, size));
    if (!tokenizer) return 0;
    const std::string_view own = as_text(ByteView(data, std::min<std::size_t>(size, 300)));
    for (const std::string_view sentence : {std::string_view("In the beginning … ﬁve Ⅷ |"), own}) {
        std::vector<std::int64_t> wide;
        for (const std::uint32_t id : (*tokenizer)->encode(sentence)) {
            DEDLOC_CHECK(id < (*tokenizer)->size());
            wide.push_back(id);
        }
        (void)(*tokenizer)->decode(wide);
    }
    return 0;
}
