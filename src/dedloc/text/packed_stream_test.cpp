#include "dedloc/text/packed_stream.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <unistd.h>

#include "dedloc/security/identity.h"
#include "dedloc/text/byte_pairs_training.h"
#include "dedloc/text/language_data.h"
#include "dedloc/text/prefetch.h"

namespace dedloc::text {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<const LanguageTokenizer> bytes_alone() {
    return *LanguageTokenizer::parse(as_bytes(BytePairsTrainer().train(257)));
}

std::string text_of(const Chunks& chunks, std::size_t row, std::size_t part) {
    const auto ids = chunks.sentences(row, part, part + 1);
    const std::vector<std::int64_t> wide(ids.begin(), ids.end());
    return bytes_alone()->decode(wide);
}

TEST(PackDocuments, predicts_every_id_once) {
    const std::vector<RawDocument> documents{{.text = "abc"}, {.text = "defghijk"}, {.text = ""}};
    const Chunks rows = pack_documents(documents, *bytes_alone(), 8);
    // <b> a b c | <b> d e f ; f g h i j k
    ASSERT_EQ(rows.size(), 2u);
    ASSERT_EQ(rows.sentences_count(0), 2u);
    EXPECT_EQ(text_of(rows, 0, 0), "abc");
    EXPECT_EQ(rows.sentences(0, 0, 1).size(), 5u);  // <b> abc <e>
    EXPECT_EQ(text_of(rows, 0, 1), "defg");         // g is a label here and an input below
    ASSERT_EQ(rows.sentences_count(1), 1u);
    EXPECT_EQ(text_of(rows, 1, 0), "ghijk");
    EXPECT_EQ(rows.sentences(1, 0, 1).back(), bytes_alone()->end_id());
}

TEST(PackDocuments, part_of_a_document_has_no_end_of_its_own) {
    const std::vector<RawDocument> middle{{.text = "abc", .begins = false, .ends = false}};
    const Chunks rows = pack_documents(middle, *bytes_alone(), 8);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows.sentences(0, 0, 1).size(), 3u);
}

class PackedStreamTest : public testing::Test {
  protected:
    void SetUp() override {
        folder_ =
            (fs::temp_directory_path() / fmt::format("dedloc-packed-{}", ::getpid())).string();
        fs::create_directories(folder_);
        std::ofstream file(folder_ + "/text.txt");
        for (int i = 0; i < 4000; ++i) file << "Paragraph " << i << ",\n  with  spaces.\n\n";
        file.close();
        config_ = {.sources = "text:text.txt?documents=paragraph",
                   .tokenizer = "kind=byte_bpe&vocabulary=300",
                   .length = 64,
                   .window_samples = 128,
                   .held_out = 0.2};
        const auto made = LanguageData::open(
            config_, {.data_directory = folder_, .cache_directory = folder_ + "/cache"});
        ASSERT_TRUE(made) << made.error().message();
        data_ = *made;
    }
    void TearDown() override { fs::remove_all(folder_); }
    static PeerId peer(std::uint8_t number) {
        return security::Identity::from_seed(Bytes(32, number))->id();
    }

    std::string folder_;
    LanguageDataConfig config_;
    std::shared_ptr<const LanguageData> data_;
};

TEST_F(PackedStreamTest, is_a_function_of_seed_peer_and_counter) {
    const auto first = *(*data_->train(1, peer(1)))->batch({100, 140});
    const auto again = *data_->train(1, peer(1));
    EXPECT_EQ(again->batch({110, 140})->ids,
              std::vector<std::int64_t>(first.ids.begin() + 10 * 64, first.ids.end()));
    EXPECT_NE((*data_->train(1, peer(2)))->batch({100, 140})->ids, first.ids);
    EXPECT_NE((*data_->train(2, peer(1)))->batch({100, 140})->ids, first.ids);
}

TEST_F(PackedStreamTest, labels_are_what_follows_in_the_same_document) {
    const auto stream = *data_->train(1, peer(1));
    const auto batch = *stream->batch({0, 50});
    std::size_t followed = 0;
    for (std::size_t at = 0; at + 1 < batch.ids.size(); ++at) {
        if (batch.labels[at] == no_label || (at + 1) % 64 == 0) continue;
        if (batch.segments[at + 1] == batch.segments[at]) {
            EXPECT_EQ(batch.labels[at], batch.ids[at + 1]);
            EXPECT_EQ(batch.positions[at + 1], batch.positions[at] + 1);
            ++followed;
        } else {
            EXPECT_EQ(batch.labels[at], data_->tokenizer()->end_id());
            EXPECT_EQ(batch.positions[at + 1], 0);
        }
    }
    EXPECT_GT(followed, 2000u);
    EXPECT_NE(stream->describe(batch, 0).find("\n  with  spaces."), std::string::npos);
}

TEST_F(PackedStreamTest, held_out_rows_are_others_and_batches_ahead_the_same) {
    const auto train = *data_->train(1, peer(1));
    const auto held_out = *data_->held_out();
    EXPECT_GT(held_out->samples_per_epoch(), 50u);
    EXPECT_GT(train->samples_per_epoch(), 2 * held_out->samples_per_epoch());
    PrefetcherOf<PackedStream> ahead(train, {.threads = 1, .batches_ahead = 2});
    for (std::uint64_t begin = 0; begin < 200; begin += 20)
        EXPECT_EQ(ahead.take({begin, begin + 20})->ids, train->batch({begin, begin + 20})->ids);
}

TEST_F(PackedStreamTest, its_tokenizer_is_kept_by_its_hash) {
    const Digest hash = data_->tokenizer()->hash();
    const std::string other = folder_ + "/other";
    EXPECT_FALSE(kept_language_tokenizer(hash, other));
    ASSERT_TRUE(keep_language_tokenizer(data_->tokenizer()->file(), hash, other));
    EXPECT_EQ((*kept_language_tokenizer(hash, other))->hash(), hash);
    EXPECT_EQ((*kept_language_tokenizer(hash, folder_ + "/cache"))->hash(), hash);
}

TEST(RawDocuments, of_a_large_file_begin_and_end_once) {
    const std::string folder =
        (fs::temp_directory_path() / fmt::format("dedloc-raw-{}", ::getpid())).string();
    fs::create_directories(folder);
    std::string whole;
    for (int i = 0; i < 300; ++i) whole += fmt::format("Line {} of it.\n\n", i);
    std::ofstream(folder + "/a.txt") << whole;
    const auto corpus =
        *Corpus::open(*parse_sources("text:a.txt"),
                      {.data_directory = folder, .block_bytes = 512, .held_out = 0});
    std::string all;
    int begins = 0;
    int ends = 0;
    for (const Block& block : corpus->blocks(0, Split::train)) {
        const auto read = corpus->read_raw(0, block);
        ASSERT_TRUE(read);
        for (const RawDocument& document : *read) {
            all += document.text;
            begins += document.begins ? 1 : 0;
            ends += document.ends ? 1 : 0;
        }
    }
    EXPECT_EQ(all, whole);
    EXPECT_EQ(begins, 1);
    EXPECT_EQ(ends, 1);
    fs::remove_all(folder);
}

}  // namespace
}  // namespace dedloc::text
