// Tables of corpora come from the run's host: never crash; where one is taken, every block lies in
// its file, none twice, and the table that the corpus tells is the same.

#include <set>

#include "dedloc/base/check.h"
#include "dedloc/text/corpus.h"
#include "dedloc/wire/message.h"

namespace {

using namespace dedloc;

// Every block has some words, whatever the table says.
class FuzzedBlocks final : public text::SharedBlocks {
  public:
    explicit FuzzedBlocks(ByteView table) : table_(to_bytes(table)) {
        const auto known = wire::decode<text::CorpusTable>(table_);
        if (!known) return;
        for (const text::TableSource& source : known->sources)
            for (const text::TableFile& file : source.files)
                sizes_.insert(sizes_.end(), file.gaps.size(), words.size());
    }
    std::span<const std::uint32_t> sizes() const override { return sizes_; }
    ByteView table() const override { return table_; }
    Result<std::string> read(std::uint64_t) override { return std::string(words); }
    void expect(const std::vector<std::uint64_t>&) override {}

    static constexpr std::string_view words = "In the beginning was the word.\n\nAnd so on.\n";

  private:
    Bytes table_;
    std::vector<std::uint32_t> sizes_;
};

void check_blocks(const text::Corpus& corpus,
                  const text::TableSource& table,
                  std::size_t source,
                  std::set<std::uint32_t>& numbers) {
    for (const text::Split split : {text::Split::train, text::Split::held_out})
        for (const text::Block& block : corpus.blocks(source, split)) {
            DEDLOC_CHECK(block.file < table.files.size());
            DEDLOC_CHECK(block.offset + block.bytes <= table.files[block.file].bytes);
            DEDLOC_CHECK(numbers.insert(block.number).second);
            DEDLOC_CHECK(corpus.read_raw(source, block).has_value());
        }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const ByteView bytes(data, size);
    const auto table = wire::decode<text::CorpusTable>(bytes);
    const std::size_t count = table ? table->sources.size() : 1;
    const std::vector<text::SourceConfig> sources(count);
    const auto corpus =
        text::Corpus::open_shared(sources, {}, std::make_shared<FuzzedBlocks>(bytes));
    if (!corpus) return 0;
    std::set<std::uint32_t> numbers;
    for (std::size_t i = 0; i < count; ++i) check_blocks(**corpus, table->sources[i], i, numbers);
    text::CorpusTable told = (*corpus)->table();
    for (std::size_t i = 0; i < count; ++i) {
        told.sources[i].train_rate = table->sources[i].train_rate;
        told.sources[i].held_out_rate = table->sources[i].held_out_rate;
    }
    DEDLOC_CHECK(wire::encode(told) == wire::encode(*table));
    return 0;
}
