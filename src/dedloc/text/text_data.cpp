#include "dedloc/text/text_data.h"

#include <algorithm>
#include <bit>

#include "dedloc/folders/difference_words.h"

namespace dedloc::text {

std::uint32_t block_bytes_for(std::uint32_t max_length) {
    const std::uint32_t wanted = std::bit_ceil(std::max(max_length, 1u)) * 128;
    return std::clamp<std::uint32_t>(wanted, 16384, block_bytes_max);
}

Result<std::shared_ptr<const Corpus>> open_corpus(const std::string& sources,
                                                  const ExpectedCorpus& expected,
                                                  const CorpusOptions& options,
                                                  std::shared_ptr<SharedBlocks> shared) {
    DEDLOC_TRY(const auto parsed, parse_sources(sources));
    DEDLOC_TRY(auto corpus,
               shared ? Corpus::open_shared(parsed, options, std::move(shared))
                      : Corpus::open(parsed, options));
    const Digest& here = corpus->fingerprint();
    if (!expected.hash || here == *expected.hash) return corpus;
    std::string which;
    if (expected.sketch)
        which = folders::words_of_differences(
            differences(corpus->sketch(), *expected.sketch), corpus->paths(), {});
    return make_error(ErrorKind::conflict,
                      "the text here ({}) has the hash {}…, and the run wants {}…{}{}: take the "
                      "same files as the run's host",
                      corpus->description(),
                      here.short_hex(),
                      expected.hash->short_hex(),
                      which.empty() ? "" : "; ",
                      which);
}

Result<std::shared_ptr<const TextData>> TextData::open(const TextDataConfig& config,
                                                       const TextDataOptions& options) {
    std::shared_ptr<TextData> data(new TextData);
    data->config_ = config;
    data->options_ = options;
    DEDLOC_TRY(const auto recipe, parse_recipe(config.tokenizer));
    const CorpusOptions corpus_options{
        .data_directory = options.data_directory,
        .cache_directory = options.cache_directory,
        .block_bytes = block_bytes_for(std::min(config.samples.max_length, max_length_max)),
        .held_out = config.held_out};
    DEDLOC_TRY(
        data->corpus_,
        open_corpus(config.sources, {config.corpus_hash, config.corpus_sketch}, corpus_options));
    if (!options.tokenizer_file.empty()) {
        DEDLOC_TRY(data->tokenizer_,
                   Tokenizer::load(options.tokenizer_file, config.tokenizer_hash));
    } else {
        DEDLOC_TRY(data->tokenizer_,
                   cached_tokenizer(*data->corpus_,
                                    recipe,
                                    options.cache_directory,
                                    config.tokenizer_hash,
                                    options.training));
    }
    return std::shared_ptr<const TextData>(std::move(data));
}

Result<std::shared_ptr<const SampleStream>> TextData::train(std::uint64_t seed,
                                                            const PeerId& peer) const {
    return SampleStream::open(
        corpus_, tokenizer_, config_.samples, Split::train, seed, peer, options_.shard);
}

Result<std::shared_ptr<const SampleStream>> TextData::held_out() const {
    SampleOptions options = config_.samples;
    options.window_samples = std::min(options.window_samples, held_out_window);
    return SampleStream::open(corpus_, tokenizer_, options, Split::held_out, 0, PeerId());
}

}  // namespace dedloc::text
