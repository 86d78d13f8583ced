// A corpus whose text comes from another machine is the same corpus.

#include <gtest/gtest.h>
#include <map>
#include <set>

#include "dedloc/text/byte_pairs_training.h"
#include "dedloc/text/corpus.h"
#include "dedloc/text/packed_stream.h"
#include "dedloc/text/text_testing.h"
#include "dedloc/wire/message.h"

namespace dedloc::text {
namespace {

// The blocks of a corpus that is here, as if they came from elsewhere.
class Lent final : public SharedBlocks {
  public:
    Lent(std::shared_ptr<const Corpus> corpus, const CorpusTable& table)
        : corpus_(std::move(corpus)), sizes_(corpus_->block_sizes()), table_(wire::encode(table)) {}
    std::span<const std::uint32_t> sizes() const override { return sizes_; }
    ByteView table() const override { return table_; }
    Result<std::string> read(std::uint64_t block) override {
        ++reads[block];
        if (gone.contains(block)) return make_error(ErrorKind::not_found, "gone");
        return corpus_->block_text(static_cast<std::uint32_t>(block));
    }
    void expect(const std::vector<std::uint64_t>& blocks) override {
        expected.insert(blocks.begin(), blocks.end());
    }

    std::map<std::uint64_t, int> reads;
    std::set<std::uint64_t> expected;
    std::set<std::uint64_t> gone;

  private:
    std::shared_ptr<const Corpus> corpus_;
    std::vector<std::uint32_t> sizes_;
    Bytes table_;
};

class SharedCorpora : public ::testing::Test {
  protected:
    SharedCorpora() {
        std::string text;
        for (int i = 0; i < 3000; ++i)
            text += fmt::format("Sentence {} of a long text, with words enough.\n", i);
        folder.write("a/one.txt", text);
        folder.write("a/two.txt", "\xEF\xBB\xBF" + text.substr(0, 20'000));
        folder.write("b.jsonl",
                     "{\"text\": \"A record.\"}\n{\"text\": \"Another one of them.\"}\n");
        sources = *parse_sources("text:a?documents=line&weight=3, jsonl:b.jsonl");
        options = {.data_directory = folder.path(), .block_bytes = 1024, .held_out = 0.1};
        here = *Corpus::open(sources, options);
        tokenizer = *LanguageTokenizer::parse(as_bytes(BytePairsTrainer().train(257)));
        table = here->table();
        for (std::size_t i = 0; i < 2; ++i) {
            table.sources[i].train_rate = 0.02;
            table.sources[i].held_out_rate = 0.02;
        }
        lent = std::make_shared<Lent>(here, table);
    }
    std::shared_ptr<const PackedStream> stream(std::shared_ptr<const Corpus> corpus,
                                               bool needs_all = false) const {
        const ChunkStreamOptions which{.window_samples = 64, .needs_all_blocks = needs_all};
        return *PackedStream::open(std::move(corpus), tokenizer, 16, which);
    }

    Folder folder;
    std::vector<SourceConfig> sources;
    CorpusOptions options;
    std::shared_ptr<const Corpus> here;
    std::shared_ptr<const LanguageTokenizer> tokenizer;
    CorpusTable table;
    std::shared_ptr<Lent> lent;
};

TEST_F(SharedCorpora, one_has_the_same_blocks_documents_and_fingerprint) {
    const auto there = Corpus::open_shared(sources, options, lent);
    ASSERT_TRUE(there) << to_string(there.error());
    EXPECT_EQ((*there)->fingerprint(), here->fingerprint());
    EXPECT_EQ((*there)->bytes(), here->bytes());
    for (std::size_t source = 0; source < 2; ++source)
        for (const Split split : {Split::train, Split::held_out}) {
            const auto& own = here->blocks(source, split);
            const auto& shared = (*there)->blocks(source, split);
            ASSERT_EQ(own.size(), shared.size());
            for (std::size_t i = 0; i < own.size(); ++i) {
                EXPECT_EQ(own[i].offset, shared[i].offset);
                const auto mine = here->read_raw(source, own[i]);
                const auto theirs = (*there)->read_raw(source, shared[i]);
                ASSERT_TRUE(mine && theirs);
                ASSERT_EQ(mine->size(), theirs->size());
                for (std::size_t j = 0; j < mine->size(); ++j) {
                    EXPECT_EQ((*mine)[j].text, (*theirs)[j].text);
                    EXPECT_EQ((*mine)[j].begins, (*theirs)[j].begins);
                    EXPECT_EQ((*mine)[j].ends, (*theirs)[j].ends);
                }
            }
        }
}

TEST_F(SharedCorpora, opening_a_stream_reads_nothing_and_the_next_window_is_asked_for_ahead) {
    const auto there = *Corpus::open_shared(sources, options, lent);
    const auto samples = stream(there);
    EXPECT_TRUE(lent->reads.empty());
    ASSERT_TRUE(samples->batch({0, 8}));
    const std::size_t read = lent->reads.size();
    EXPECT_LT(read, here->block_sizes().size() / 2);
    EXPECT_GT(lent->expected.size(), read);
    for (const auto& [block, times] : lent->reads) EXPECT_TRUE(lent->expected.contains(block));
}

TEST_F(SharedCorpora, a_block_that_is_gone_is_left_out_unless_others_compute_again) {
    const auto there = *Corpus::open_shared(sources, options, lent);
    ASSERT_TRUE(stream(there)->batch({0, 64}));
    lent->gone.insert(lent->reads.begin()->first);
    EXPECT_TRUE(stream(there)->batch({0, 64}));
    const auto strict = stream(there, /*needs_all=*/true)->batch({0, 64});
    ASSERT_FALSE(strict);
    EXPECT_EQ(strict.error().kind(), ErrorKind::not_found);
}

TEST_F(SharedCorpora, a_table_that_does_not_fit_is_refused) {
    for (const int kind : {0, 1, 2, 3}) {
        CorpusTable bad = table;
        if (kind == 0) bad.sources.pop_back();
        if (kind == 1) bad.sources[0].files[0].gaps.pop_back();
        if (kind == 2) bad.sources[0].files[0].bytes = 1;
        if (kind == 3) bad.sources[0].train_rate = 1e9;
        const auto there = Corpus::open_shared(sources, options, std::make_shared<Lent>(here, bad));
        ASSERT_FALSE(there) << kind;
        EXPECT_EQ(there.error().kind(), ErrorKind::bad_input);
    }
}

}  // namespace
}  // namespace dedloc::text
