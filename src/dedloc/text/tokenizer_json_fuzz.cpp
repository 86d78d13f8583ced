// tokenizer.json comes from other peers, too: never crash; what is read encodes any text, and ids
// stay in range.

#include <algorithm>

#include "dedloc/base/check.h"
#include "dedloc/text/language_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc;
    const auto tokenizer = text::LanguageTokenizer::parse(ByteView(data, size));
    if (!tokenizer) return 0;
    const std::string_view own = as_text(ByteView(data, std::min<std::size_t>(size, 300)));
    const std::string valid = text::valid_utf8(own);
    for (const std::string_view text :
         {std::string_view("In the\n beginning… ﬁve Ⅷ <s>"), std::string_view(valid), own}) {
        std::vector<std::int64_t> wide;
        for (const std::uint32_t id : (*tokenizer)->encode(text)) {
            DEDLOC_CHECK(id < (*tokenizer)->size());
            (void)(*tokenizer)->bytes_of(id);
            wide.push_back(id);
        }
        (void)(*tokenizer)->decode(wide);
    }
    DEDLOC_CHECK((*tokenizer)->begin_id() < (*tokenizer)->size());
    return 0;
}
