// The chunk of a corpus that is sample number `counter` of a peer: a pure function of (corpus, how
// it is cut into chunks, run seed, peer, counter), whatever was asked before, on any machine.
//
//   window = counter / window_samples. Of every window each source gives its share by weight, its
//   own samples number window × share and following (block_order.h); all are shuffled together.
//   That is the shuffle buffer, with bounded memory and random access.
//   Within a block: an order of its chunks drawn from (seed, peer, source, block, epoch).
//
// Users make samples of chunks (sample_stream.h: pairs with words masked; packed_stream.h: rows for
// language models).
//
// Memory: windows_kept windows of window_samples × (some more than a chunk's tokens × 4 bytes).
// Cost: one sample costs tokenizing its text once; the first of a window waits for the whole window
// (prefetch.h hides that). Thread: any.
// Errors: bad_input  nothing in the corpus gives a chunk; a weight below one sample a window (of
//                    held-out samples such a source is left out instead)
//         bad_input, local_fault  from reading the corpus

#pragma once
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/random.h"
#include "dedloc/text/block_order.h"
#include "dedloc/text/chunks.h"

namespace dedloc::text {

struct SampleRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t size() const { return end - begin; }
    friend bool operator==(const SampleRange&, const SampleRange&) = default;
};

// How the text of a block becomes chunks.
class ChunkCutter {
  public:
    virtual ~ChunkCutter() = default;
    virtual Result<Chunks> cut(const Corpus& corpus,
                               std::size_t source,
                               const Block& block) const = 0;
    // For people: "no document has two sentences …"; why a text gives no chunk, and what to do.
    virtual std::string why_nothing() const = 0;
};

struct ChunkStreamOptions {
    std::uint32_t window_samples = 4096;
    Split split = Split::train;
    std::uint64_t seed = 0;
    PeerId peer{};  // an empty one is for everybody the same: evaluation
    Shard shard{};
    // Others compute these samples again: of a corpus that is shared, a block that is gone is an
    // error then, and not left out.
    bool needs_all_blocks = false;
};

class ChunkStream {
  public:
    static Result<std::unique_ptr<const ChunkStream>> open(
        std::shared_ptr<const Corpus> corpus,
        std::shared_ptr<const ChunkCutter> cutter,
        const ChunkStreamOptions& options);

    // Calls take(chunks, chunk, random) for each sample in order; `random` is the sample's own.
    using Take = std::function<void(const Chunks&, std::size_t, Random&)>;
    Ok visit(SampleRange range, const Take& take) const;
    // Prepares the window with this sample, if it is not there yet.
    Ok prepare(std::uint64_t counter) const;
    std::uint64_t samples_per_epoch() const;  // of all sources, as if they were walked once
    std::uint32_t window_samples() const { return options_.window_samples; }
    // Samples a byte gives, by the corpus's sources; 0: none of it is in this stream.
    std::vector<double> rates() const;

  private:
    struct Window {
        Chunks chunks;                     // one a slot, sources one behind the other
        std::vector<std::uint32_t> order;  // which slot is sample number i of the window
    };
    using WindowResult = Result<std::shared_ptr<const Window>>;
    struct Source {
        std::size_t index = 0;    // in the corpus
        double rate = 0;          // samples a byte gives
        std::uint64_t share = 0;  // samples of a window
        std::uint64_t seed = 0;
        std::unique_ptr<BlockOrder> order;
    };
    // The chunks of one block, maybe none, and the order in which they are taken.
    struct ShuffledChunks {
        Chunks chunks;
        std::vector<std::uint32_t> order;
        std::uint32_t at(std::uint64_t slot) const { return order[slot % order.size()]; }
    };
    ChunkStream() = default;
    Result<double> measure(std::size_t source) const;
    Ok share_window(const std::vector<double>& weights);
    WindowResult window(std::uint64_t number) const;
    WindowResult make_window(std::uint64_t number) const;
    Result<ShuffledChunks> shuffled_chunks(const Source& source,
                                           std::uint64_t epoch,
                                           std::uint32_t block) const;
    std::vector<BlockSlot> slots_of(const Source& source, std::uint64_t window) const;
    void expect_window(std::uint64_t number) const;
    Ok append_source(const Source& source, std::uint64_t window, Chunks& chunks) const;

    std::shared_ptr<const Corpus> corpus_;
    std::shared_ptr<const ChunkCutter> cutter_;
    ChunkStreamOptions options_;
    std::uint64_t seed_ = 0;  // of (run, peer)
    std::vector<Source> sources_;

    mutable std::mutex order_mutex_;
    mutable std::mutex windows_mutex_;
    mutable std::map<std::uint64_t, std::shared_future<WindowResult>> windows_;
};

}  // namespace dedloc::text
