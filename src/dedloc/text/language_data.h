// Everything a language model needs of its data: text_data.h's counterpart, with whole documents
// packed into rows instead of pairs of sentences with words masked.
//
// Thread: any; immutable. Blocks and errors as in text_data.h.

#pragma once
#include <memory>
#include <optional>
#include <string>

#include "dedloc/text/packed_stream.h"
#include "dedloc/text/text_data.h"
#include "dedloc/text/tokenizer_training.h"

namespace dedloc::text {

struct LanguageDataConfig {  // equal on all peers: the run file's
    std::string sources = "kjv";
    std::string tokenizer = "kind=byte_bpe&vocabulary=8192";
    std::optional<Digest> tokenizer_hash{};
    ExpectedCorpus corpus{};
    std::uint32_t length = 512;
    std::uint32_t window_samples = 1024;
    double held_out = 0.02;
};

class LanguageData {
  public:
    static Result<std::shared_ptr<const LanguageData>> open(const LanguageDataConfig& config,
                                                            const TextDataOptions& options);

    const Corpus& corpus() const { return *corpus_; }
    const std::shared_ptr<const Corpus>& shared_corpus() const { return corpus_; }
    const std::shared_ptr<const LanguageTokenizer>& tokenizer() const { return tokenizer_; }
    // One peer's stream, for training.
    Result<std::shared_ptr<const PackedStream>> train(std::uint64_t seed, const PeerId& peer) const;
    // The same for everybody; numbers 0 … samples_per_epoch() - 1.
    Result<std::shared_ptr<const PackedStream>> held_out() const;
    // A table with which others open the same text without its files.
    Result<CorpusTable> table() const;

  private:
    LanguageData() = default;
    LanguageDataConfig config_;
    Shard shard_{};
    bool needs_all_blocks_ = false;
    std::shared_ptr<const Corpus> corpus_;
    std::shared_ptr<const LanguageTokenizer> tokenizer_;
};

}  // namespace dedloc::text
