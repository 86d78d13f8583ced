#include "dedloc/text/sample_stream.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dedloc/base/check.h"
#include "dedloc/security/hash.h"

namespace dedloc::text {

namespace {

constexpr std::size_t windows_kept = 3;      // the one in use, the next, and one for a straggler
constexpr std::size_t measured_blocks = 32;  // to learn how many samples a byte gives
constexpr int other_blocks_max = 64;         // drawn for a window whose own blocks give nothing

std::uint64_t seed_of(std::string_view purpose, std::uint64_t seed, const PeerId& peer) {
    Bytes number;
    base::put_u64_be(number, seed);
    security::Sha256 hash;
    const Digest digest = hash.update(purpose).update(number).update(peer.bytes()).finish();
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) value = (value << 8) | digest.bytes[i];
    return value;
}

std::uint64_t mixed(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0) {
    return base::mix64(base::mix64(seed ^ base::mix64(a)) + b);
}

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

Result<double> SampleStream::measure(const Corpus& corpus,
                                     std::size_t source,
                                     Split split,
                                     const Tokenizer& tokenizer,
                                     std::uint32_t max_length) {
    const auto& blocks = corpus.blocks(source, split);
    const std::size_t count = std::min(blocks.size(), measured_blocks);
    std::uint64_t bytes = 0;
    std::uint64_t samples = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const Block& block = blocks[i * blocks.size() / count];
        DEDLOC_TRY(const auto documents, corpus.read(source, block));
        samples += make_chunks(documents, tokenizer, max_length).size();
        bytes += block.bytes;
    }
    if (samples == 0)
        return make_error(ErrorKind::bad_input,
                          "{}: no document here has two sentences, and a sample is a pair; should "
                          "documents be larger (?documents=file), or sentences found otherwise "
                          "(?sentences=line)?",
                          to_string({corpus.source(source)}));
    return static_cast<double>(samples) / static_cast<double>(bytes);
}

// Largest remainder.
Ok SampleStream::share_window(const std::vector<double>& weights) {
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::uint64_t given = 0;
    std::vector<std::pair<double, std::size_t>> rest;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        const double exact = options_.window_samples * weights[i] / total;
        sources_[i].share = static_cast<std::uint64_t>(exact);
        given += sources_[i].share;
        rest.emplace_back(static_cast<double>(sources_[i].share) - exact, i);
    }
    std::sort(rest.begin(), rest.end());
    for (std::size_t i = 0; given < options_.window_samples; ++i, ++given)
        ++sources_[rest[i % rest.size()].second].share;
    // A source of so little weight is trained on, and is nothing in an evaluation.
    if (split_ == Split::held_out)
        std::erase_if(sources_, [](const Source& source) { return source.share == 0; });
    for (const Source& source : sources_)
        if (source.share == 0)
            return make_error(ErrorKind::bad_input,
                              "{}: this weight gives less than one of the {} samples of a window; "
                              "raise it, or leave the source out",
                              to_string({corpus_->source(source.index)}),
                              options_.window_samples);
    return {};
}

Result<std::shared_ptr<const SampleStream>> SampleStream::open(
    std::shared_ptr<const Corpus> corpus,
    std::shared_ptr<const Tokenizer> tokenizer,
    const SampleOptions& options,
    Split split,
    std::uint64_t seed,
    const PeerId& peer,
    Shard shard) {
    DEDLOC_TRY_VOID(check_options(options));
    if (shard.count == 0 || shard.index >= shard.count)
        return make_error(
            ErrorKind::bad_input, "there is no shard {} of {}", shard.index, shard.count);
    std::shared_ptr<SampleStream> stream(new SampleStream);
    stream->corpus_ = std::move(corpus);
    stream->tokenizer_ = std::move(tokenizer);
    stream->options_ = options;
    stream->split_ = split;
    stream->seed_ = seed_of("dedloc/text-sample/1", seed, peer);
    std::vector<double> weights;
    for (std::size_t i = 0; i < stream->corpus_->sources_count(); ++i) {
        const auto& blocks = stream->corpus_->blocks(i, split);
        if (blocks.empty()) continue;
        DEDLOC_TRY(const double rate,
                   measure(*stream->corpus_, i, split, *stream->tokenizer_, options.max_length));
        Source source;
        source.index = i;
        source.seed = mixed(stream->seed_, 0x6F72646572, i);
        source.samples_per_byte = rate;
        source.order = std::make_unique<BlockOrder>(blocks, rate, source.seed, shard);
        weights.push_back(stream->corpus_->source(i).weight);
        stream->sources_.push_back(std::move(source));
    }
    if (stream->sources_.empty())
        return make_error(ErrorKind::bad_input,
                          "{}: too little text to hold some of it out for evaluation",
                          stream->corpus_->description());
    DEDLOC_TRY_VOID(stream->share_window(weights));
    return std::shared_ptr<const SampleStream>(std::move(stream));
}

std::uint64_t SampleStream::samples_per_epoch() const {
    std::uint64_t samples = 0;
    for (const Source& source : sources_) samples += source.order->samples_per_epoch();
    return samples;
}

Result<SampleStream::ShuffledChunks> SampleStream::shuffled_chunks(const Source& source,
                                                                   std::uint64_t epoch,
                                                                   std::uint32_t block) const {
    const auto& blocks = corpus_->blocks(source.index, split_);
    DEDLOC_TRY(const auto documents, corpus_->read(source.index, blocks[block]));
    ShuffledChunks result{make_chunks(documents, *tokenizer_, options_.max_length), {}};
    result.order.resize(result.chunks.size());
    std::iota(result.order.begin(), result.order.end(), 0u);
    Random random(mixed(source.seed, epoch, block + 1));
    random.shuffle(result.order);
    return result;
}

Ok SampleStream::append_source(const Source& source, std::uint64_t window, Chunks& out) const {
    std::vector<BlockSlot> slots;
    {
        const std::lock_guard lock(order_mutex_);
        for (std::uint64_t i = 0; i < source.share; ++i)
            slots.push_back(source.order->at(window * source.share + i));
    }
    ShuffledChunks present;     // of this block, or of the last one that had any
    std::uint64_t waiting = 0;  // slots of blocks without chunks before the first with some
    const auto take = [&](std::uint64_t slot) { out.append(present.chunks, present.at(slot)); };
    for (std::size_t i = 0; i < slots.size(); ++i) {
        const BlockSlot& slot = slots[i];
        const bool same =
            i > 0 && slots[i - 1].block == slot.block && slots[i - 1].epoch == slot.epoch;
        if (!same) {
            DEDLOC_TRY(ShuffledChunks fresh, shuffled_chunks(source, slot.epoch, slot.block));
            if (!fresh.order.empty()) present = std::move(fresh);
        }
        if (present.order.empty()) {
            ++waiting;
            continue;
        }
        for (; waiting > 0; --waiting) take(waiting);
        take(slot.slot);
    }
    // No block of this window has any: another one gives them, or a restart would end here again.
    Random random(mixed(source.seed, ~window));
    const std::size_t blocks_count = corpus_->blocks(source.index, split_).size();
    for (int i = 0; waiting > 0 && i < other_blocks_max && present.order.empty(); ++i) {
        const auto block = static_cast<std::uint32_t>(random.below(blocks_count));
        DEDLOC_TRY(present, shuffled_chunks(source, slots.front().epoch, block));
    }
    if (waiting > 0 && present.order.empty())
        return make_error(ErrorKind::bad_input,
                          "{}: {} blocks in a row, and {} others, have no document of two "
                          "sentences; is this running text?",
                          to_string({corpus_->source(source.index)}),
                          slots.size(),
                          other_blocks_max);
    for (; waiting > 0; --waiting) take(waiting);
    return {};
}

SampleStream::WindowResult SampleStream::make_window(std::uint64_t number) const {
    auto made = std::make_shared<Window>();
    for (const Source& source : sources_)
        DEDLOC_TRY_VOID(append_source(source, number, made->chunks));
    DEDLOC_CHECK(made->chunks.size() == options_.window_samples);
    made->order.resize(options_.window_samples);
    std::iota(made->order.begin(), made->order.end(), 0u);
    Random random(mixed(seed_, 0x77696E646F77, number));
    random.shuffle(made->order);
    return std::shared_ptr<const Window>(std::move(made));
}

// Whoever asks first makes it; others wait.
SampleStream::WindowResult SampleStream::window(std::uint64_t number) const {
    std::promise<WindowResult> promise;
    std::shared_future<WindowResult> future;
    bool mine = false;
    {
        const std::lock_guard lock(windows_mutex_);
        const auto found = windows_.find(number);
        if (found != windows_.end()) {
            future = found->second;
        } else {
            mine = true;
            future = promise.get_future().share();
            // The oldest goes, but not what was asked for just now.
            while (windows_.size() >= windows_kept) windows_.erase(windows_.begin());
            windows_.emplace(number, future);
        }
    }
    if (mine) promise.set_value(make_window(number));
    WindowResult result = future.get();
    if (!result) {  // the next try may succeed
        const std::lock_guard lock(windows_mutex_);
        windows_.erase(number);
    }
    return result;
}

Ok SampleStream::prepare(std::uint64_t counter) const {
    DEDLOC_TRY_VOID(window(counter / options_.window_samples));
    return {};
}

Result<MaskedBatch> SampleStream::batch(SampleRange range) const {
    std::vector<Row> rows;
    rows.reserve(range.size());
    std::shared_ptr<const Window> present;
    std::uint64_t number = 0;
    for (std::uint64_t counter = range.begin; counter < range.end; ++counter) {
        const std::uint64_t wanted = counter / options_.window_samples;
        if (!present || number != wanted) {
            DEDLOC_TRY(present, window(wanted));
            number = wanted;
        }
        Random random(mixed(seed_, 0x73616D706C65, counter));
        const std::uint32_t chunk = present->order[counter % options_.window_samples];
        Row row = make_pair_row(
            present->chunks, chunk, tokenizer_->special(), options_.max_length, random);
        mask_row(row, *tokenizer_, options_.masking, random);
        rows.push_back(std::move(row));
    }
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
