// Everything a text task needs of its data, from a few lines of the run file.
//
//   DEDLOC_TRY(auto data, text::TextData::open(config, {.data_directory = …}));
//   DEDLOC_TRY(auto samples, data->train(run_seed, my_id));
//   text::Prefetcher batches(samples, {});
//   DEDLOC_TRY(auto batch, batches.take({counter, counter + 32}));
//
// Thread: any; immutable. Blocks: reads the corpus once, and trains the tokenizer when neither a
// file nor the cache has it. Errors: those of Corpus, Tokenizer, SampleStream.

#pragma once
#include <memory>
#include <optional>
#include <string>

#include "dedloc/text/sample_stream.h"
#include "dedloc/text/tokenizer_training.h"

namespace dedloc::text {

struct TextDataConfig {                         // equal on all peers: the run file's
    std::string sources = "kjv";                // source.h
    std::string tokenizer = "vocabulary=4096";  // recipe.h
    std::optional<Digest> tokenizer_hash{};     // of the tokenizer's file, where the run names it
    std::optional<folders::FileSketch> corpus_sketch{};  // of it, to say which files differ
    std::optional<Digest> corpus_hash{};  // its fingerprint, where all must have the same text
    SampleOptions samples{};
    double held_out = 0.02;
};

struct TextDataOptions {  // this peer's own
    std::string data_directory{};
    std::string cache_directory{};  // empty: default_cache_directory()
    std::string tokenizer_file{};   // empty: from the cache, or trained there
    Shard shard{};
    TrainingOptions training{};
    std::shared_ptr<SharedBlocks> shared{};  // null: the text is on this machine
    bool needs_all_blocks = false;           // chunk_stream.h
};

// 16 KiB, and more for long samples: a block should give some 30.
std::uint32_t block_bytes_for(std::uint32_t max_length);

// Evaluation reads little: a smaller window is sooner there.
inline constexpr std::uint32_t held_out_window = 512;

// The text that all peers must have, where they must.
struct ExpectedCorpus {
    std::optional<Digest> hash{};                 // its fingerprint
    std::optional<folders::FileSketch> sketch{};  // of it, to say which files differ
};

// conflict unless its text is the expected one.
Result<std::shared_ptr<const Corpus>> open_corpus(const std::string& sources,
                                                  const ExpectedCorpus& expected,
                                                  const CorpusOptions& options,
                                                  std::shared_ptr<SharedBlocks> shared = nullptr);

class TextData {
  public:
    static Result<std::shared_ptr<const TextData>> open(const TextDataConfig& config,
                                                        const TextDataOptions& options);

    const Corpus& corpus() const { return *corpus_; }
    const Tokenizer& tokenizer() const { return *tokenizer_; }
    // One peer's stream, for training.
    Result<std::shared_ptr<const SampleStream>> train(std::uint64_t seed, const PeerId& peer) const;
    // The same for everybody, whatever the run's seed; numbers 0 … samples_per_epoch() - 1.
    Result<std::shared_ptr<const SampleStream>> held_out() const;

  private:
    TextData() = default;
    TextDataConfig config_;
    TextDataOptions options_;
    std::shared_ptr<const Corpus> corpus_;
    std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace dedloc::text
