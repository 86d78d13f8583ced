// Sample number `counter` of a peer, as rows of masked sentence pairs: a pure function of (corpus,
// tokenizer, options, run seed, peer, counter), whatever was asked before and on whatever machine.
//
//   window = counter / window_samples. Of every window each source gives its share by weight, its
//   own samples number window × share and following (block_order.h); all are shuffled together.
//   That is the shuffle buffer, with bounded memory and random access.
//   Within a block: an order of its chunks drawn from (seed, peer, source, block, epoch).
//   Within a sample: split, swap and mask are drawn from (seed, peer, counter); so a chunk that
//   comes again in another epoch comes split and masked in another way.
//
// A resumed peer goes on with the next counter; anybody can recompute any gradient.
//
// Memory: windows_kept windows of window_samples × (some more than max_length × 4 bytes).
// Cost: one sample costs tokenizing its text once; the first of a window waits for the whole window
// (prefetch.h hides that). Thread: any.
// Errors: bad_input  no two sentences in one document anywhere; a weight below one sample a window
//                    (of held-out samples such a source is left out instead)
//         bad_input, local_fault  from reading the corpus

#pragma once
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/text/block_order.h"
#include "dedloc/text/chunks.h"
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

struct SampleRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t size() const { return end - begin; }
    friend bool operator==(const SampleRange&, const SampleRange&) = default;
};

class SampleStream {
  public:
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
    // Prepares the window with this sample, if it is not there yet.
    Ok prepare(std::uint64_t counter) const;

    std::uint64_t samples_per_epoch() const;  // of all sources, as if they were walked once
    std::uint32_t window_samples() const { return options_.window_samples; }
    const Tokenizer& tokenizer() const { return *tokenizer_; }

    // A row for people: "[CLS] and [MASK] said … [SEP] …", and what was masked.
    std::string describe(const MaskedBatch& batch, std::int64_t row) const;

  private:
    struct Window {
        Chunks chunks;                     // one a slot, sources one behind the other
        std::vector<std::uint32_t> order;  // which slot is sample number i of the window
    };
    using WindowResult = Result<std::shared_ptr<const Window>>;
    struct Source {
        std::size_t index = 0;    // in the corpus
        std::uint64_t share = 0;  // samples of a window
        std::uint64_t seed = 0;
        double samples_per_byte = 0;
        std::unique_ptr<BlockOrder> order;
    };
    // The chunks of one block, maybe none, and the order in which they are taken.
    struct ShuffledChunks {
        Chunks chunks;
        std::vector<std::uint32_t> order;
        std::uint32_t at(std::uint64_t slot) const { return order[slot % order.size()]; }
    };
    SampleStream() = default;
    static Result<double> measure(const Corpus& corpus,
                                  std::size_t source,
                                  Split split,
                                  const Tokenizer& tokenizer,
                                  std::uint32_t max_length);
    Ok share_window(const std::vector<double>& weights);
    WindowResult window(std::uint64_t number) const;
    WindowResult make_window(std::uint64_t number) const;
    Result<ShuffledChunks> shuffled_chunks(const Source& source,
                                           std::uint64_t epoch,
                                           std::uint32_t block) const;
    Ok append_source(const Source& source, std::uint64_t window, Chunks& chunks) const;

    std::shared_ptr<const Corpus> corpus_;
    std::shared_ptr<const Tokenizer> tokenizer_;
    SampleOptions options_;
    Split split_ = Split::train;
    std::uint64_t seed_ = 0;  // of (run, peer)
    std::vector<Source> sources_;

    mutable std::mutex order_mutex_;
    mutable std::mutex windows_mutex_;
    mutable std::map<std::uint64_t, std::shared_future<WindowResult>> windows_;
};

}  // namespace dedloc::text
