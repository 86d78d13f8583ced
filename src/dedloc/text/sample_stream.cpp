#include "dedloc/text/sample_stream.h"

#include <utility>

namespace dedloc::text {

namespace {

class SentenceCutter final : public ChunkCutter {
  public:
    SentenceCutter(std::shared_ptr<const Tokenizer> tokenizer, std::uint32_t max_length)
        : tokenizer_(std::move(tokenizer)), max_length_(max_length) {}

    Result<Chunks> cut(const Corpus& corpus,
                       std::size_t source,
                       const Block& block) const override {
        DEDLOC_TRY(const auto documents, corpus.read(source, block));
        return make_chunks(documents, *tokenizer_, max_length_);
    }
    std::string why_nothing() const override {
        return "no document here has two sentences, and a sample is a pair; should documents be "
               "larger (?documents=file), or sentences found otherwise (?sentences=line)?";
    }

  private:
    std::shared_ptr<const Tokenizer> tokenizer_;
    std::uint32_t max_length_;
};

Ok check_options(const SampleOptions& options) {
    const MaskingOptions& masking = options.masking;
    const bool shares = masking.mask_share >= 0 && masking.random_share >= 0 &&
                        masking.mask_share + masking.random_share <= 1 + 1e-9;
    if (options.max_length < max_length_min || options.max_length > max_length_max)
        return make_error(ErrorKind::bad_input,
                          "samples have {} to {} tokens, not {}",
                          max_length_min,
                          max_length_max,
                          options.max_length);
    if (!(masking.probability > 0 && masking.probability < 1) || !shares)
        return make_error(ErrorKind::bad_input,
                          "a fraction of tokens between 0 and 1 is masked, not {}; of these at "
                          "most all are replaced, not {} and {}",
                          masking.probability,
                          masking.mask_share,
                          masking.random_share);
    if (options.window_samples == 0 || options.window_samples > window_samples_max ||
        options.pad_multiple == 0 || options.pad_multiple > pad_multiple_max)
        return make_error(ErrorKind::bad_input,
                          "a window has 1 to {} samples, and rows are padded to a multiple of 1 to "
                          "{}; not {} and {}",
                          window_samples_max,
                          pad_multiple_max,
                          options.window_samples,
                          options.pad_multiple);
    return {};
}

}  // namespace

Result<std::shared_ptr<const SampleStream>> SampleStream::open(
    std::shared_ptr<const Corpus> corpus,
    std::shared_ptr<const Tokenizer> tokenizer,
    const SampleOptions& options,
    Split split,
    std::uint64_t seed,
    const PeerId& peer,
    Shard shard) {
    DEDLOC_TRY_VOID(check_options(options));
    std::shared_ptr<SampleStream> stream(new SampleStream);
    stream->tokenizer_ = std::move(tokenizer);
    stream->options_ = options;
    const ChunkStreamOptions which{.window_samples = options.window_samples,
                                   .split = split,
                                   .seed = seed,
                                   .peer = peer,
                                   .shard = shard};
    DEDLOC_TRY(
        stream->chunks_,
        ChunkStream::open(std::move(corpus),
                          std::make_shared<SentenceCutter>(stream->tokenizer_, options.max_length),
                          which));
    return std::shared_ptr<const SampleStream>(std::move(stream));
}

Result<MaskedBatch> SampleStream::batch(SampleRange range) const {
    std::vector<Row> rows;
    rows.reserve(range.size());
    const auto add = [&](const Chunks& chunks, std::size_t chunk, Random& random) {
        Row row = make_pair_row(chunks, chunk, tokenizer_->special(), options_.max_length, random);
        mask_row(row, *tokenizer_, options_.masking, random);
        rows.push_back(std::move(row));
    };
    DEDLOC_TRY_VOID(chunks_->visit(range, add));
    return pad_rows(rows, tokenizer_->special().pad, options_.pad_multiple);
}

std::string SampleStream::describe(const MaskedBatch& batch, std::int64_t row) const {
    const auto begin = static_cast<std::size_t>(row * batch.columns);
    const auto columns = static_cast<std::size_t>(batch.columns);
    const auto ids = std::span(batch.input_ids).subspan(begin, columns);
    const auto labels = std::span(batch.labels).subspan(begin, columns);
    std::string masked;
    for (const std::int64_t label : labels) {
        if (label == not_masked) continue;
        masked += masked.empty() ? "" : ", ";
        masked += tokenizer_->decode(std::span(&label, 1));
    }
    const bool swapped = batch.sentence_order[static_cast<std::size_t>(row)] != 0;
    return fmt::format("{}\n    masked: {}\n    order:  {}",
                       tokenizer_->decode(ids),
                       masked,
                       swapped ? "swapped" : "as written");
}

}  // namespace dedloc::text
