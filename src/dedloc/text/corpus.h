// A corpus: text files cut into blocks of some 16 KiB, of which only places and sizes are kept.
//
// Opening reads everything once, front to back, and keeps 24 bytes a block: memory does not grow
// with the text (6 GB: 9 MB). Later, blocks are read one by one in any order. A block ends where a
// document or a sentence does if such a place is near, so a document of several blocks loses a
// chunk at each seam, and no more. The bytes of all files make the fingerprint: two peers with the
// same fingerprint and options draw the same samples.
//
// Held-out blocks are spread evenly; they depend on nothing but the corpus.
//
// A corpus may also be one whose files are elsewhere (shared_blocks.h): nothing is read to open it,
// and each block comes when it is read.
//
// Thread: any; immutable once open. Blocks. Cost: opening 0.4 GB/s (SHA-256, UTF-8, cuts).
// Errors: not_found    a folder, file or Debian package is missing; says which
//         bad_input    not UTF-8, not text, not JSON, no text at all or in more than half of the
//                      records: which file, where, what to do; a file changed while it was in use
//         local_fault  a file cannot be read: the disk, a mount that went away

#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/folders/sketch.h"
#include "dedloc/text/shared_blocks.h"
#include "dedloc/text/source.h"

namespace dedloc::text {

inline constexpr std::size_t files_max = 1'000'000;            // of one source
inline constexpr std::size_t blocks_max = 16'000'000;          // of one source: 256 GB
inline constexpr std::size_t json_line_bytes_max = 16u << 20;  // a record, with everything in it
inline constexpr std::size_t checked_blocks_max = 32;  // whose records are looked at in opening
inline constexpr std::uint32_t block_bytes_min = 256;
inline constexpr std::uint32_t block_bytes_max = 1u << 20;

enum class Split { train, held_out };

struct CorpusOptions {
    std::string data_directory{};   // relative paths are below it; empty: the working folder
    std::string cache_directory{};  // of kjv; empty: default_cache_directory()
    std::uint32_t block_bytes = 16384;
    double held_out = 0.02;  // fraction of the blocks, in [0, 0.5]
};

// Sentences of one document, or of what one block has of it.
using Document = std::vector<std::string>;

// A document as it is written, or what one block has of it.
struct RawDocument {
    std::string text;
    bool begins = true;  // its first bytes are here
    bool ends = true;    // its last bytes are here
};

struct Block {
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t file = 0;
    std::uint32_t number = 0;  // among all blocks of the corpus
};

// A stamp tells that a file was written anew. Not its inode: some network file systems invent
// those.
struct FileStamp {
    std::uint64_t bytes = 0;
    std::filesystem::file_time_type changed;
    friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

class Corpus {
  public:
    static Result<std::shared_ptr<const Corpus>> open(const std::vector<SourceConfig>& sources,
                                                      const CorpusOptions& options);

    // The text of this corpus comes through `shared`. bad_input: its table is not of these sources.
    static Result<std::shared_ptr<const Corpus>> open_shared(
        const std::vector<SourceConfig>& sources,
        const CorpusOptions& options,
        std::shared_ptr<SharedBlocks> shared);

    // A table with which others open this corpus without its files; callers fill in the rates.
    CorpusTable table() const;
    std::vector<std::uint32_t> block_sizes() const;  // of all, by number
    Result<std::string> block_text(std::uint32_t number) const;
    bool is_shared() const { return shared_ != nullptr; }
    // Samples a byte of that source, where they need not be measured; 0: they do.
    double known_rate(std::size_t source, Split split) const;
    // The blocks will be read soon, in this order; of use where they come from elsewhere.
    void expect(const std::vector<std::uint64_t>& numbers) const;

    std::size_t sources_count() const { return sources_.size(); }
    const SourceConfig& source(std::size_t index) const { return sources_[index].config; }
    const std::vector<Block>& blocks(std::size_t source, Split split) const;
    Result<std::vector<Document>> read(std::size_t source, const Block& block) const;

    // The same text without a look for sentences: white space and line ends as they are.
    Result<std::vector<RawDocument>> read_raw(std::size_t source, const Block& block) const;

    std::uint64_t bytes() const { return bytes_; }
    // JSON lines that were left out so far because they are none; the first few are logged.
    std::uint64_t bad_records() const { return bad_records_; }
    const Digest& fingerprint() const { return fingerprint_; }
    // By which a peer with other text is told which files differ.
    const folders::FileSketch& sketch() const { return sketch_; }
    std::vector<std::string> paths() const;  // of all files, as the sketch knows them
    const CorpusOptions& options() const { return options_; }
    std::string description() const;  // "kjv: 4.1 MB in 1 file"

    // Calls `take` with the sentences of training blocks, evenly spread, until about `bytes_max`
    // bytes were given (each block at most once), or until it returns false.
    Ok visit_sentences(std::uint64_t bytes_max,
                       const std::function<bool(const std::string&)>& take) const;
    // The same with whole documents.
    Ok visit_texts(std::uint64_t bytes_max,
                   const std::function<bool(const std::string&)>& take) const;

  private:
    struct Source {
        SourceConfig config;
        std::string root;                // folder of the files, or the one file's
        std::vector<std::string> files;  // below root, sorted
        std::vector<FileStamp> stamps;   // of files, from before they were read
        std::uint64_t bytes = 0;
        std::vector<Block> train;
        std::vector<Block> held_out;
        double train_rate = 0;
        double held_out_rate = 0;
    };
    Corpus() = default;
    static Result<Source> source_of(const SourceConfig& config,
                                    const TableSource& table,
                                    double held_out,
                                    std::span<const std::uint32_t> sizes,
                                    std::uint32_t& number);
    static Result<Source> find_files(const SourceConfig& config, const CorpusOptions& options);
    static std::string name_of(const Source& source, std::size_t file);
    static std::string path_of(const Source& source, const Block& block);
    static Result<std::string> text_in_file(const Source& source, const Block& block);
    Result<std::string> text_of(const Source& source, const Block& block) const;
    // Reads a block of JSON lines; bad ones are left out.
    std::vector<std::string> records_of(const Source& source,
                                        const Block& block,
                                        std::string_view text) const;
    Ok visit_blocks(std::uint64_t bytes_max,
                    const std::function<Result<bool>(std::size_t, const Block&)>& take) const;
    static Ok check_records(const Source& source, const std::vector<Block>& blocks);

    CorpusOptions options_;
    std::vector<Source> sources_;
    std::shared_ptr<SharedBlocks> shared_;  // null: the files are here
    std::uint64_t bytes_ = 0;
    Digest fingerprint_;
    folders::FileSketch sketch_;
    mutable std::atomic<std::uint64_t> bad_records_ = 0;
};

}  // namespace dedloc::text
