#include "dedloc/text/language_data.h"

#include <algorithm>

namespace dedloc::text {

Result<std::shared_ptr<const LanguageData>> LanguageData::open(const LanguageDataConfig& config,
                                                               const TextDataOptions& options) {
    std::shared_ptr<LanguageData> data(new LanguageData);
    data->config_ = config;
    data->shard_ = options.shard;
    data->needs_all_blocks_ = options.needs_all_blocks;
    DEDLOC_TRY(const auto recipe, parse_recipe(config.tokenizer));
    const CorpusOptions corpus_options{
        .data_directory = options.data_directory,
        .cache_directory = options.cache_directory,
        .block_bytes = block_bytes_for(std::min(config.length, max_length_max)),
        .held_out = config.held_out};
    DEDLOC_TRY(data->corpus_,
               open_corpus(config.sources, config.corpus, corpus_options, options.shared));
    if (!options.tokenizer_file.empty()) {
        DEDLOC_TRY(data->tokenizer_,
                   LanguageTokenizer::load(options.tokenizer_file, config.tokenizer_hash));
    } else {
        DEDLOC_TRY(data->tokenizer_,
                   cached_language_tokenizer(*data->corpus_,
                                             recipe,
                                             options.cache_directory,
                                             config.tokenizer_hash,
                                             options.training));
    }
    return std::shared_ptr<const LanguageData>(std::move(data));
}

Result<std::shared_ptr<const PackedStream>> LanguageData::train(std::uint64_t seed,
                                                                const PeerId& peer) const {
    const ChunkStreamOptions which{.window_samples = config_.window_samples,
                                   .split = Split::train,
                                   .seed = seed,
                                   .peer = peer,
                                   .shard = shard_,
                                   .needs_all_blocks = needs_all_blocks_};
    return PackedStream::open(corpus_, tokenizer_, config_.length, which);
}

Result<CorpusTable> LanguageData::table() const {
    CorpusTable table = corpus_->table();
    DEDLOC_TRY(const auto training, train(0, PeerId()));
    DEDLOC_TRY(const auto evaluation, held_out());
    const std::vector<double> train_rates = training->rates();
    const std::vector<double> held_out_rates = evaluation->rates();
    for (std::size_t i = 0; i < table.sources.size(); ++i) {
        table.sources[i].train_rate = train_rates[i];
        table.sources[i].held_out_rate = held_out_rates[i];
    }
    return table;
}

Result<std::shared_ptr<const PackedStream>> LanguageData::held_out() const {
    const ChunkStreamOptions which{
        .window_samples = std::min(config_.window_samples, held_out_window),
        .split = Split::held_out,
        .seed = 0,
        .peer = PeerId(),
        .shard = {},
        .needs_all_blocks = false};
    return PackedStream::open(corpus_, tokenizer_, config_.length, which);
}

}  // namespace dedloc::text
