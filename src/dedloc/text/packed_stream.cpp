#include "dedloc/text/packed_stream.h"

#include <algorithm>
#include <utility>

namespace dedloc::text {

namespace {

class DocumentCutter final : public ChunkCutter {
  public:
    DocumentCutter(std::shared_ptr<const LanguageTokenizer> tokenizer, std::uint32_t length)
        : tokenizer_(std::move(tokenizer)), length_(length) {}

    Result<Chunks> cut(const Corpus& corpus,
                       std::size_t source,
                       const Block& block) const override {
        DEDLOC_TRY(const auto documents, corpus.read_raw(source, block));
        return pack_documents(documents, *tokenizer_, length_);
    }
    std::string why_nothing() const override {
        return "the documents here have no text; is this the right file, or the right field?";
    }

  private:
    std::shared_ptr<const LanguageTokenizer> tokenizer_;
    std::uint32_t length_;
};

// Rows that are being filled; a row's documents are its chunk's sentences.
class RowFiller {
  public:
    RowFiller(Chunks& chunks, std::uint32_t length) : chunks_(chunks), length_(length) {}

    // A document's ids, each but the last one to be followed by the next.
    void add(std::span<const std::uint32_t> ids) {
        while (ids.size() >= 2) {
            const std::size_t inputs = std::min<std::size_t>(ids.size() - 1, length_ - filled_);
            chunks_.tokens.insert(chunks_.tokens.end(),
                                  ids.begin(),
                                  ids.begin() + static_cast<std::ptrdiff_t>(inputs + 1));
            chunks_.begin.push_back(static_cast<std::uint32_t>(chunks_.tokens.size()));
            filled_ += inputs;
            ids = ids.subspan(inputs);
            if (filled_ == length_) end_row();
        }
    }
    void end_row() {
        if (filled_ == 0) return;
        chunks_.first.push_back(static_cast<std::uint32_t>(chunks_.begin.size() - 1));
        filled_ = 0;
    }

  private:
    Chunks& chunks_;
    std::size_t length_;
    std::size_t filled_ = 0;  // inputs of the row so far
};

}  // namespace

Chunks pack_documents(const std::vector<RawDocument>& documents,
                      const LanguageTokenizer& tokenizer,
                      std::uint32_t length) {
    Chunks chunks;
    RowFiller rows(chunks, length);
    std::vector<std::uint32_t> ids;
    for (const RawDocument& document : documents) {
        ids.clear();
        if (document.begins) ids.push_back(tokenizer.begin_id());
        const std::size_t before = ids.size();
        tokenizer.encode(document.text, ids);
        if (ids.size() == before) continue;
        if (document.ends) ids.push_back(tokenizer.end_id());
        rows.add(ids);
    }
    rows.end_row();
    return chunks;
}

Result<std::shared_ptr<const PackedStream>> PackedStream::open(
    std::shared_ptr<const Corpus> corpus,
    std::shared_ptr<const LanguageTokenizer> tokenizer,
    std::uint32_t length,
    const ChunkStreamOptions& which) {
    if (length < max_length_min || length > max_length_max)
        return make_error(ErrorKind::bad_input,
                          "samples have {} to {} tokens, not {}",
                          max_length_min,
                          max_length_max,
                          length);
    std::shared_ptr<PackedStream> stream(new PackedStream);
    stream->tokenizer_ = std::move(tokenizer);
    stream->length_ = length;
    DEDLOC_TRY(stream->chunks_,
               ChunkStream::open(std::move(corpus),
                                 std::make_shared<DocumentCutter>(stream->tokenizer_, length),
                                 which));
    return std::shared_ptr<const PackedStream>(std::move(stream));
}

Result<PackedBatch> PackedStream::batch(SampleRange range) const {
    PackedBatch batch;
    batch.rows = static_cast<std::int64_t>(range.size());
    batch.columns = length_;
    const std::size_t size = range.size() * length_;
    batch.ids.assign(size, tokenizer_->end_id());
    batch.labels.assign(size, no_label);
    batch.segments.assign(size, 0);
    batch.positions.assign(size, 0);
    std::size_t row = 0;
    const auto add = [&](const Chunks& chunks, std::size_t chunk, Random&) {
        std::size_t at = row++ * length_;
        const std::size_t end = at + length_;
        const std::size_t documents = chunks.sentences_count(chunk);
        for (std::size_t segment = 0; segment < documents; ++segment) {
            const auto ids = chunks.sentences(chunk, segment, segment + 1);
            for (std::size_t i = 0; i + 1 < ids.size(); ++i, ++at) {
                batch.ids[at] = ids[i];
                batch.labels[at] = ids[i + 1];
                batch.segments[at] = static_cast<std::int64_t>(segment);
                batch.positions[at] = static_cast<std::int64_t>(i);
            }
        }
        // Padding is a document of its own.
        for (; at < end; ++at) batch.segments[at] = static_cast<std::int64_t>(documents);
    };
    DEDLOC_TRY_VOID(chunks_->visit(range, add));
    return batch;
}

std::string PackedStream::describe(const PackedBatch& batch, std::int64_t row) const {
    std::string text;
    std::vector<std::int64_t> ids;
    const auto end = static_cast<std::size_t>((row + 1) * batch.columns);
    for (auto at = static_cast<std::size_t>(row * batch.columns); at < end; ++at) {
        if (batch.labels[at] == no_label) break;
        if (batch.positions[at] == 0 && !ids.empty()) {
            text += valid_utf8(tokenizer_->decode(ids)) + "\n    ----\n";
            ids.clear();
        }
        ids.push_back(batch.ids[at]);
    }
    return text + valid_utf8(tokenizer_->decode(ids));
}

}  // namespace dedloc::text
