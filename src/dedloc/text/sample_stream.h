// Sample number `counter` of a peer, as rows of masked sentence pairs: a pure function of (corpus,
// tokenizer, options, run seed, peer, counter), whatever was asked before and on whatever machine.
//
//   which chunk: chunk_stream.h
//   Within a sample: split, swap and mask are drawn from (seed, peer, counter); so a chunk that
//   comes again in another epoch comes split and masked in another way.
//
// A resumed peer goes on with the next counter; anybody can recompute any gradient.
//
// Memory, cost, thread: chunk_stream.h.
// Errors: those of chunk_stream.h; a corpus gives nothing where no document has two sentences.

#pragma once
#include <cstdint>
#include <memory>

#include "dedloc/base/peer_id.h"
#include "dedloc/text/chunk_stream.h"
#include "dedloc/text/masking.h"

namespace dedloc::text {

inline constexpr std::uint32_t window_samples_max = 1u << 20;
inline constexpr std::uint32_t pad_multiple_max = 1024;

struct SampleOptions {               // all of it belongs into the run file
    std::uint32_t max_length = 512;  // tokens, special ones included
    MaskingOptions masking{};
    std::uint32_t pad_multiple = 1;
    std::uint32_t window_samples = 4096;
};

class SampleStream {
  public:
    using Batch = MaskedBatch;
    // An empty peer is for everybody the same: evaluation.
    static Result<std::shared_ptr<const SampleStream>> open(
        std::shared_ptr<const Corpus> corpus,
        std::shared_ptr<const Tokenizer> tokenizer,
        const SampleOptions& options,
        Split split,
        std::uint64_t seed,
        const PeerId& peer,
        Shard shard = {});

    Result<MaskedBatch> batch(SampleRange range) const;
    Ok prepare(std::uint64_t counter) const { return chunks_->prepare(counter); }

    std::uint64_t samples_per_epoch() const { return chunks_->samples_per_epoch(); }
    std::uint32_t window_samples() const { return chunks_->window_samples(); }
    const Tokenizer& tokenizer() const { return *tokenizer_; }

    // A row for people: "[CLS] and [MASK] said … [SEP] …", and what was masked.
    std::string describe(const MaskedBatch& batch, std::int64_t row) const;

  private:
    SampleStream() = default;

    std::shared_ptr<const Tokenizer> tokenizer_;
    SampleOptions options_;
    std::unique_ptr<const ChunkStream> chunks_;
};

}  // namespace dedloc::text
