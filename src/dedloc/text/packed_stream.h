// Sample number `counter` of a peer as a row of packed documents, for language models: a pure
// function of (corpus, tokenizer, length, run seed, peer, counter), as in sample_stream.h.
//
//   ids        <begin> all of one document <begin> the beginning of the next …
//   labels     each the id that follows; behind a document's last one <end>
//   segments   0 0 0 …                     1 1 …           which document: none sees another
//   positions  0 1 2 …                     0 1 …           counted from the row's own part of it
//
// A block's documents follow each other and are cut into rows of `length` ids, each id predicted
// once. A row that the block does not fill is padded (label no_label). What a block has of a
// document that goes on elsewhere has no <begin> or no <end>.
//
// Thread: any. Errors: those of chunk_stream.h.

#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/text/chunk_stream.h"
#include "dedloc/text/language_tokenizer.h"

namespace dedloc::text {

inline constexpr std::int64_t no_label = -100;  // the loss ignores it

// Matrices of rows × columns, row by row.
struct PackedBatch {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::vector<std::int64_t> ids;
    std::vector<std::int64_t> labels;
    std::vector<std::int64_t> segments;
    std::vector<std::int64_t> positions;
};

class PackedStream {
  public:
    using Batch = PackedBatch;
    static Result<std::shared_ptr<const PackedStream>> open(
        std::shared_ptr<const Corpus> corpus,
        std::shared_ptr<const LanguageTokenizer> tokenizer,
        std::uint32_t length,
        const ChunkStreamOptions& which);

    Result<PackedBatch> batch(SampleRange range) const;
    Ok prepare(std::uint64_t counter) const { return chunks_->prepare(counter); }
    std::uint64_t samples_per_epoch() const { return chunks_->samples_per_epoch(); }
    std::uint32_t window_samples() const { return chunks_->window_samples(); }
    std::vector<double> rates() const { return chunks_->rates(); }

    // A row for people: its documents, one behind the other.
    std::string describe(const PackedBatch& batch, std::int64_t row) const;

  private:
    PackedStream() = default;

    std::shared_ptr<const LanguageTokenizer> tokenizer_;
    std::uint32_t length_ = 0;
    std::unique_ptr<const ChunkStream> chunks_;
};

// One chunk a row, one "sentence" a document's part of it, with the id behind its last one.
Chunks pack_documents(const std::vector<RawDocument>& documents,
                      const LanguageTokenizer& tokenizer,
                      std::uint32_t length);

}  // namespace dedloc::text
