// Corpora whose files are on another machine (shared_blocks.h), and what it tells of them.

#include <algorithm>

#include "dedloc/text/corpus.h"
#include "dedloc/text/corpus_split.h"
#include "dedloc/wire/message.h"

namespace dedloc::text {
namespace {

// All blocks of a source in the order of its files.
std::vector<Block> in_order(std::vector<Block> blocks, const std::vector<Block>& more) {
    blocks.insert(blocks.end(), more.begin(), more.end());
    std::ranges::sort(blocks, {}, &Block::number);
    return blocks;
}

const Block* find_block(const std::vector<Block>& blocks, std::uint32_t number) {
    const auto found = std::ranges::lower_bound(blocks, number, {}, &Block::number);
    return found != blocks.end() && found->number == number ? &*found : nullptr;
}

}  // namespace

CorpusTable Corpus::table() const {
    CorpusTable table;
    table.fingerprint = fingerprint_;
    for (const Source& source : sources_) {
        TableSource& out = table.sources.emplace_back();
        for (std::size_t i = 0; i < source.files.size(); ++i)
            out.files.push_back(
                {.name = source.files[i], .bytes = source.stamps[i].bytes, .gaps = {}});
        std::uint32_t file = 0;
        std::uint64_t end = 0;
        for (const Block& block : in_order(source.train, source.held_out)) {
            if (block.file != file) end = 0;
            file = block.file;
            out.files[file].gaps.push_back(static_cast<std::uint32_t>(block.offset - end));
            end = block.offset + block.bytes;
        }
    }
    return table;
}

std::vector<std::uint32_t> Corpus::block_sizes() const {
    std::vector<std::uint32_t> sizes;
    for (const Source& source : sources_)
        for (const Block& block : in_order(source.train, source.held_out))
            sizes.push_back(block.bytes);
    return sizes;
}

Result<std::string> Corpus::block_text(std::uint32_t number) const {
    for (const Source& source : sources_)
        for (const std::vector<Block>* blocks : {&source.train, &source.held_out})
            if (const Block* block = find_block(*blocks, number)) return text_of(source, *block);
    return make_error(ErrorKind::bad_input, "the corpus has no block {}", number);
}

double Corpus::known_rate(std::size_t source, Split split) const {
    return split == Split::train ? sources_[source].train_rate : sources_[source].held_out_rate;
}

void Corpus::expect(const std::vector<std::uint64_t>& numbers) const {
    if (shared_) shared_->expect(numbers);
}

Result<Corpus::Source> Corpus::source_of(const SourceConfig& config,
                                         const TableSource& table,
                                         double held_out,
                                         std::span<const std::uint32_t> sizes,
                                         std::uint32_t& number) {
    Source source{
        .config = config, .root = {}, .files = {}, .stamps = {}, .train = {}, .held_out = {}};
    for (const double rate : {table.train_rate, table.held_out_rate})
        if (!(rate >= 0 && rate <= 1))
            return make_error(ErrorKind::bad_input,
                              "the table of the run's text says that a byte gives {} samples",
                              rate);
    source.train_rate = table.train_rate;
    source.held_out_rate = table.held_out_rate;
    std::vector<Block> blocks;
    for (const TableFile& file : table.files) {
        std::uint64_t offset = 0;
        for (const std::uint32_t gap : file.gaps) {
            if (number >= sizes.size())
                return make_error(ErrorKind::bad_input,
                                  "the table of the run's text has more blocks than there are");
            const std::uint32_t bytes = sizes[number];
            offset += gap;
            blocks.push_back({.offset = offset,
                              .bytes = bytes,
                              .file = static_cast<std::uint32_t>(source.files.size()),
                              .number = number++});
            offset += bytes;
        }
        if (offset > file.bytes)
            return make_error(ErrorKind::bad_input,
                              "the table of the run's text has blocks behind the end of a file");
        source.files.push_back(file.name);
        source.stamps.push_back({.bytes = file.bytes, .changed = {}});
        source.bytes += file.bytes;
    }
    if (blocks.empty())
        return make_error(ErrorKind::bad_input, "the table of the run's text has an empty source");
    split_blocks(std::move(blocks), held_out, source.train, source.held_out);
    return source;
}

Result<std::shared_ptr<const Corpus>> Corpus::open_shared(const std::vector<SourceConfig>& sources,
                                                          const CorpusOptions& options,
                                                          std::shared_ptr<SharedBlocks> shared) {
    DEDLOC_TRY(const CorpusTable table, wire::decode<CorpusTable>(shared->table()));
    if (table.sources.size() != sources.size())
        return make_error(ErrorKind::bad_input,
                          "the table of the run's text has {} sources, and the run names {}",
                          table.sources.size(),
                          sources.size());
    std::shared_ptr<Corpus> corpus(new Corpus);
    corpus->options_ = options;
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        DEDLOC_TRY(
            Source source,
            source_of(sources[i], table.sources[i], options.held_out, shared->sizes(), number));
        corpus->bytes_ += source.bytes;
        corpus->sources_.push_back(std::move(source));
    }
    if (number != shared->sizes().size())
        return make_error(ErrorKind::bad_input,
                          "the table of the run's text has fewer blocks than there are");
    corpus->fingerprint_ = table.fingerprint;
    corpus->shared_ = std::move(shared);
    return std::shared_ptr<const Corpus>(std::move(corpus));
}

}  // namespace dedloc::text
