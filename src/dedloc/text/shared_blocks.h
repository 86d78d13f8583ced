// SharedBlocks: the text of a corpus that is on other machines and comes block by block
// (data/piece_exchange.h). A CorpusTable says which block is where in which file, so that a corpus
// is cut, shuffled and held out exactly as where its files are.
//
// Thread: any. read() blocks until the block is here. Errors: bad_input; not_found: it is gone.

#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"

namespace dedloc::text {

inline constexpr std::size_t table_sources_max = 64;
inline constexpr std::size_t table_files_max = 1'000'000;
inline constexpr std::size_t table_blocks_max = 4u << 20;

class SharedBlocks {
  public:
    virtual ~SharedBlocks() = default;
    virtual std::span<const std::uint32_t> sizes() const = 0;  // of all blocks, source by source
    virtual ByteView table() const = 0;                        // a CorpusTable, encoded
    virtual Result<std::string> read(std::uint64_t block) = 0;
    // The blocks will be read soon, in this order.
    virtual void expect(const std::vector<std::uint64_t>& blocks) = 0;
};

struct TableFile {
    std::string name;
    std::uint64_t bytes = 0;
    std::vector<std::uint32_t> gaps;  // before each block: bytes that are in none
    DEDLOC_FIELDS(name, bytes, (gaps, table_blocks_max))
};
struct TableSource {
    std::vector<TableFile> files;
    // Samples that a byte gives, of training and held-out text, as the host has measured them.
    double train_rate = 0;
    double held_out_rate = 0;
    DEDLOC_FIELDS((files, table_files_max), train_rate, held_out_rate)
};
struct CorpusTable {
    Digest fingerprint;
    std::vector<TableSource> sources;
    DEDLOC_FIELDS(fingerprint, (sources, table_sources_max))
};

}  // namespace dedloc::text
