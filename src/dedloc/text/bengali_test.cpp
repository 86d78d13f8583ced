// Tokenizer and normalizer on real Bengali: 6,236 verses of the npm package quran-json 3.1.2, which
// tools/test_data.sh brings to the cache. The text is for tests only.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sentencepiece_processor.h>

#include "dedloc/text/cache.h"
#include "dedloc/text/corpus.h"
#include "dedloc/text/text_testing.h"
#include "dedloc/text/tokenizer.h"
#include "dedloc/text/tokenizer_training.h"

namespace dedloc::text {
namespace {

constexpr std::size_t verses_count = 6236;
constexpr std::string_view danda = "\u0964";
constexpr std::string_view visarga = "\u0983";

std::vector<std::string> bengali_verses() {
    const auto cache = default_cache_directory();
    if (!cache) return {};
    std::ifstream file(*cache + "/test-data/quran_bn.json");
    if (!file) return {};
    std::vector<std::string> verses;
    for (const auto& chapter : nlohmann::json::parse(file))
        for (const auto& verse : chapter.at("verses")) verses.push_back(verse.at("translation"));
    return verses;
}

class Bengali : public testing::Test {
  protected:
    void SetUp() override {
        verses = bengali_verses();
        if (verses.empty())
            GTEST_SKIP() << "wants npm's quran-json, which tools/test_data.sh fetches";
        ASSERT_EQ(verses.size(), verses_count);
        std::string text;
        for (const std::string& verse : verses) text += verse + "\n";
        folder.write("verses.txt", text);
    }
    std::shared_ptr<const Tokenizer> train(const std::string& recipe) {
        const auto corpus = *Corpus::open(*parse_sources("text:verses.txt?sentences=line"),
                                          {.data_directory = folder.path()});
        return *train_tokenizer(
            *corpus, *parse_recipe(recipe), {.scratch_directory = folder.path()});
    }
    static std::unique_ptr<const sentencepiece::SentencePieceProcessor> library(
        const Tokenizer& tokenizer) {
        auto made = std::make_unique<sentencepiece::SentencePieceProcessor>();
        EXPECT_TRUE(made->LoadFromSerializedProto(as_text(tokenizer.file())).ok());
        return made;
    }

    Folder folder;
    std::vector<std::string> verses;
};

TEST_F(Bengali, every_verse_has_the_ids_of_sentencepiece) {
    const auto tokenizer =
        train("vocabulary=4000&normalization=nmt_nfkc_cf&split_digits=true&coverage=1");
    const auto theirs = library(*tokenizer);
    std::vector<int> ids;
    for (const std::string& verse : verses) {
        ASSERT_TRUE(theirs->Encode(verse, &ids).ok());
        const auto ours = tokenizer->encode(verse);
        ASSERT_EQ(std::vector<int>(ours.begin(), ours.end()), ids) << verse;
    }
}

// As people type it: a bar for the danda, a colon for the visarga.
std::string as_typed(const std::string& verse) {
    std::string typed;
    for (std::size_t at = 0; at < verse.size();) {
        const std::string_view letter = std::string_view(verse).substr(at, danda.size());
        const bool is_mark = letter == danda || letter == visarga;
        typed += letter == danda ? "|" : letter == visarga ? ":" : std::string(1, verse[at]);
        at += is_mark ? danda.size() : 1;
    }
    return typed;
}

// The library knows no rules of ours: it gets the text that they leave.
TEST_F(Bengali, every_verse_has_them_after_sahajberts_rules) {
    const auto tokenizer = train(
        "vocabulary=4000&normalization=nmt_nfkc_cf&rules=bengali&split_digits=true&coverage=1");
    const auto theirs = library(*tokenizer);
    std::vector<int> ids;
    std::size_t changed = 0;
    for (const std::string& verse : verses) {
        const std::string typed = as_typed(verse);
        const std::string ruled = bengali_rules(typed);
        changed += ruled != typed ? 1 : 0;
        ASSERT_TRUE(theirs->Encode(ruled, &ids).ok());
        const auto ours = tokenizer->encode(typed);
        ASSERT_EQ(std::vector<int>(ours.begin(), ours.end()), ids) << verse;
    }
    EXPECT_GT(changed, verses_count / 2) << "the rules did next to nothing";
}

}  // namespace
}  // namespace dedloc::text
