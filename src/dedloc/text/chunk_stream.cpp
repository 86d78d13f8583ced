#include "dedloc/text/chunk_stream.h"

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

}  // namespace

Result<double> ChunkStream::measure(std::size_t source) const {
    if (const double known = corpus_->known_rate(source, options_.split); known > 0) return known;
    const auto& blocks = corpus_->blocks(source, options_.split);
    const std::size_t count = std::min(blocks.size(), measured_blocks);
    std::uint64_t bytes = 0;
    std::uint64_t samples = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const Block& block = blocks[i * blocks.size() / count];
        DEDLOC_TRY(const Chunks chunks, cutter_->cut(*corpus_, source, block));
        samples += chunks.size();
        bytes += block.bytes;
    }
    if (samples == 0)
        return make_error(ErrorKind::bad_input,
                          "{}: {}",
                          to_string({corpus_->source(source)}),
                          cutter_->why_nothing());
    return static_cast<double>(samples) / static_cast<double>(bytes);
}

// Largest remainder.
Ok ChunkStream::share_window(const std::vector<double>& weights) {
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
    if (options_.split == Split::held_out)
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

Result<std::unique_ptr<const ChunkStream>> ChunkStream::open(
    std::shared_ptr<const Corpus> corpus,
    std::shared_ptr<const ChunkCutter> cutter,
    const ChunkStreamOptions& options) {
    if (options.shard.count == 0 || options.shard.index >= options.shard.count)
        return make_error(ErrorKind::bad_input,
                          "there is no shard {} of {}",
                          options.shard.index,
                          options.shard.count);
    std::unique_ptr<ChunkStream> stream(new ChunkStream);
    stream->corpus_ = std::move(corpus);
    stream->cutter_ = std::move(cutter);
    stream->options_ = options;
    stream->seed_ = seed_of("dedloc/text-sample/1", options.seed, options.peer);
    std::vector<double> weights;
    for (std::size_t i = 0; i < stream->corpus_->sources_count(); ++i) {
        const auto& blocks = stream->corpus_->blocks(i, options.split);
        if (blocks.empty()) continue;
        DEDLOC_TRY(const double rate, stream->measure(i));
        Source source;
        source.index = i;
        source.rate = rate;
        source.seed = mixed(stream->seed_, 0x6F72646572, i);
        source.order = std::make_unique<BlockOrder>(blocks, rate, source.seed, options.shard);
        weights.push_back(stream->corpus_->source(i).weight);
        stream->sources_.push_back(std::move(source));
    }
    if (stream->sources_.empty())
        return make_error(ErrorKind::bad_input,
                          "{}: too little text to hold some of it out for evaluation",
                          stream->corpus_->description());
    DEDLOC_TRY_VOID(stream->share_window(weights));
    return std::unique_ptr<const ChunkStream>(std::move(stream));
}

std::uint64_t ChunkStream::samples_per_epoch() const {
    std::uint64_t samples = 0;
    for (const Source& source : sources_) samples += source.order->samples_per_epoch();
    return samples;
}

std::vector<double> ChunkStream::rates() const {
    std::vector<double> rates(corpus_->sources_count());
    for (const Source& source : sources_) rates[source.index] = source.rate;
    return rates;
}

std::vector<BlockSlot> ChunkStream::slots_of(const Source& source, std::uint64_t window) const {
    std::vector<BlockSlot> slots;
    const std::lock_guard lock(order_mutex_);
    for (std::uint64_t i = 0; i < source.share; ++i)
        slots.push_back(source.order->at(window * source.share + i));
    return slots;
}

// Blocks that come from elsewhere are asked for before they are needed.
void ChunkStream::expect_window(std::uint64_t number) const {
    if (!corpus_->is_shared()) return;
    std::vector<std::uint64_t> blocks;
    for (const Source& source : sources_)
        for (const BlockSlot& slot : slots_of(source, number)) {
            const Block& block = corpus_->blocks(source.index, options_.split)[slot.block];
            if (blocks.empty() || blocks.back() != block.number) blocks.push_back(block.number);
        }
    corpus_->expect(blocks);
}

Result<ChunkStream::ShuffledChunks> ChunkStream::shuffled_chunks(const Source& source,
                                                                 std::uint64_t epoch,
                                                                 std::uint32_t block) const {
    const auto& blocks = corpus_->blocks(source.index, options_.split);
    ShuffledChunks result;
    auto chunks = cutter_->cut(*corpus_, source.index, blocks[block]);
    // A block that no peer has any more gives nothing, and others stand in for it.
    const bool is_gone = !chunks && corpus_->is_shared() && !options_.needs_all_blocks &&
                         chunks.error().kind() == ErrorKind::not_found;
    if (is_gone) return result;
    if (!chunks) return std::move(chunks).error();
    result.chunks = *std::move(chunks);
    result.order.resize(result.chunks.size());
    std::iota(result.order.begin(), result.order.end(), 0u);
    Random random(mixed(source.seed, epoch, block + 1));
    random.shuffle(result.order);
    return result;
}

Ok ChunkStream::append_source(const Source& source, std::uint64_t window, Chunks& out) const {
    const std::vector<BlockSlot> slots = slots_of(source, window);
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
    const std::size_t blocks_count = corpus_->blocks(source.index, options_.split).size();
    for (int i = 0; waiting > 0 && i < other_blocks_max && present.order.empty(); ++i) {
        const auto block = static_cast<std::uint32_t>(random.below(blocks_count));
        DEDLOC_TRY(present, shuffled_chunks(source, slots.front().epoch, block));
    }
    if (waiting > 0 && present.order.empty())
        return make_error(ErrorKind::bad_input,
                          "{}: {} blocks in a row, and {} others, give nothing: {}",
                          to_string({corpus_->source(source.index)}),
                          slots.size(),
                          other_blocks_max,
                          cutter_->why_nothing());
    for (; waiting > 0; --waiting) take(waiting);
    return {};
}

ChunkStream::WindowResult ChunkStream::make_window(std::uint64_t number) const {
    auto made = std::make_shared<Window>();
    expect_window(number);
    expect_window(number + 1);
    for (const Source& source : sources_)
        DEDLOC_TRY_VOID(append_source(source, number, made->chunks));
    DEDLOC_CHECK(made->chunks.size() == options_.window_samples);
    made->order.resize(options_.window_samples);
    std::iota(made->order.begin(), made->order.end(), 0u);
    Random random(mixed(seed_, 0x77696E646F77, number));
    random.shuffle(made->order);
    return std::shared_ptr<const Window>(std::move(made));
}

// The first asker makes it; others wait.
ChunkStream::WindowResult ChunkStream::window(std::uint64_t number) const {
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

Ok ChunkStream::prepare(std::uint64_t counter) const {
    DEDLOC_TRY_VOID(window(counter / options_.window_samples));
    return {};
}

Ok ChunkStream::visit(SampleRange range, const Take& take) const {
    std::shared_ptr<const Window> present;
    std::uint64_t number = 0;
    for (std::uint64_t counter = range.begin; counter < range.end; ++counter) {
        const std::uint64_t wanted = counter / options_.window_samples;
        if (!present || number != wanted) {
            DEDLOC_TRY(present, window(wanted));
            number = wanted;
        }
        Random random(mixed(seed_, 0x73616D706C65, counter));
        take(present->chunks, present->order[counter % options_.window_samples], random);
    }
    return {};
}

}  // namespace dedloc::text
