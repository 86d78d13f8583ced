// Ids equal those of the `tokenizers` package: tests/oracles/language compares them on texts of
// many scripts; here are the patterns, the merges and what is refused.

#include "dedloc/text/language_tokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dedloc/text/byte_pairs_training.h"
#include "dedloc/text/tokenizer_json.h"
#include "dedloc/text/word_patterns.h"

namespace dedloc::text {
namespace {

std::vector<std::string> words_by(std::string_view text, WordPattern pattern) {
    std::vector<std::string_view> words;
    split_words(text, pattern, words);
    return {words.begin(), words.end()};
}

using Words = std::vector<std::string>;

TEST(WordPatterns, part_text_as_gpt2_does) {
    const auto words = [](std::string_view text) { return words_by(text, WordPattern::gpt2); };
    EXPECT_EQ(words("I'll go, it's 42nd!"),
              (Words{"I", "'ll", " go", ",", " it", "'s", " 42", "nd", "!"}));
    EXPECT_EQ(words("a  b \n\n c"), (Words{"a", " ", " b", " \n\n", " c"}));
    EXPECT_EQ(words("end  "), (Words{"end", "  "}));
    EXPECT_EQ(words("দুটি ২৩"), (Words{"দ", "ু", "ট", "ি", " ২৩"}));
    EXPECT_EQ(words("\tx"), (Words{"\t", "x"}));
    EXPECT_EQ(words(""), Words{});
}

TEST(WordPatterns, part_text_as_llama3_and_qwen2_do) {
    const auto words = [](std::string_view text) { return words_by(text, WordPattern::llama3); };
    EXPECT_EQ(words("I'LL pay 12345,\n\n then"),
              (Words{"I", "'LL", " pay", " ", "123", "45", ",\n\n", " then"}));
    EXPECT_EQ(words("a \n \n  b"), (Words{"a", " \n \n", " ", " b"}));
    EXPECT_EQ(words("(x)"), (Words{"(x", ")"}));
    EXPECT_EQ(words_by("123", WordPattern::qwen2), (Words{"1", "2", "3"}));
}

std::shared_ptr<const LanguageTokenizer> trained(std::uint32_t vocabulary) {
    BytePairsTrainer trainer;
    for (int i = 0; i < 20; ++i) trainer.add("the lower the newer, the wider the lowest: größer");
    const auto made = LanguageTokenizer::parse(as_bytes(trainer.train(vocabulary)));
    EXPECT_TRUE(made) << made.error().message();
    return *made;
}

TEST(ByteTokenizer, trains_the_commonest_pairs_and_loses_no_text) {
    const auto tokenizer = trained(280);
    EXPECT_EQ(tokenizer->size(), 280u);
    EXPECT_EQ(tokenizer->piece(0), end_of_text_piece);
    EXPECT_EQ(tokenizer->begin_id(), 0u);
    EXPECT_EQ(tokenizer->end_id(), 0u);
    const std::string text = "the newest größe\r\n\t 漢字 🤷🏽 \u00a0 the";
    const auto ids = tokenizer->encode(text);
    EXPECT_LT(ids.size(), text.size());
    std::vector<std::int64_t> wide(ids.begin(), ids.end());
    EXPECT_EQ(tokenizer->decode(wide), text);
    std::size_t bytes = 0;
    for (const std::uint32_t id : ids) bytes += tokenizer->bytes_of(id);
    EXPECT_EQ(bytes, text.size());
}

TEST(ByteTokenizer, ends_early_where_no_neighbours_are_left) {
    const auto tokenizer = trained(5000);
    EXPECT_GT(tokenizer->size(), 270u);
    EXPECT_LT(tokenizer->size(), 400u);
}

TEST(ByteTokenizer, finds_special_pieces_in_the_text) {
    const auto tokenizer = trained(280);
    const auto ids = tokenizer->encode("the<|endoftext|>the");
    EXPECT_EQ(std::count(ids.begin(), ids.end(), 0u), 1);
    EXPECT_EQ(ids.front(), ids.back());
    EXPECT_EQ(tokenizer->bytes_of(0), 0u);
}

TEST(TextFromIds, gives_whole_characters_only) {
    const auto tokenizer = trained(257);  // bytes alone
    TextFromIds text(*tokenizer);
    std::string all;
    int empty = 0;
    for (const std::uint32_t id : tokenizer->encode("aß漢🤷.")) {
        const std::string added = text.add(id);
        EXPECT_EQ(valid_utf8(added), added);
        empty += added.empty() ? 1 : 0;
        all += added;
    }
    EXPECT_EQ(all, "aß漢🤷.");
    EXPECT_EQ(empty, 1 + 2 + 3);
    EXPECT_EQ(text.finish(), "");
    text.add(tokenizer->encode("漢")[0]);
    EXPECT_EQ(text.finish(), "\uFFFD");
}

TEST(ByteTokenizer, reads_characters_with_bytes_for_the_rest) {
    nlohmann::json file = nlohmann::json::parse(R"({
      "added_tokens": [{"id": 0, "content": "<unk>", "special": true},
                       {"id": 1, "content": "<s>", "special": true},
                       {"id": 2, "content": "</s>", "special": true}],
      "normalizer": {"type": "Sequence", "normalizers": [
         {"type": "Prepend", "prepend": "▁"},
         {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
      "pre_tokenizer": null,
      "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
                "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2},
                "merges": [["▁", "a"], ["▁a", "b"]]}})");
    auto& vocabulary = file["model"]["vocab"];
    for (int byte = 0; byte < 256; ++byte) vocabulary[fmt::format("<0x{:02X}>", byte)] = 3 + byte;
    for (const char* piece : {"▁", "a", "b", "▁a", "▁ab"}) {
        const auto next = vocabulary.size();
        vocabulary[piece] = next;
    }
    const auto tokenizer = LanguageTokenizer::parse(as_bytes(file.dump()));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    EXPECT_EQ((*tokenizer)->begin_id(), 1u);
    EXPECT_EQ((*tokenizer)->end_id(), 2u);
    const auto ids = (*tokenizer)->encode("ab ß");
    EXPECT_EQ(ids, (std::vector<std::uint32_t>{263, 259, 3 + 0xC3, 3 + 0x9F}));
    EXPECT_EQ((*tokenizer)->decode(std::vector<std::int64_t>(ids.begin(), ids.end())), "ab ß");
}

TEST(ByteTokenizer, says_what_it_does_not_read) {
    const std::string good(as_text(trained(260)->file()));
    const auto message_of = [&](const char* key, const char* json) {
        nlohmann::json file = nlohmann::json::parse(good);
        file[nlohmann::json::json_pointer(key)] = nlohmann::json::parse(json);
        const auto made = LanguageTokenizer::parse(as_bytes(file.dump()));
        return made ? std::string("read") : made.error().message();
    };
    EXPECT_NE(message_of("/model/type", "\"WordPiece\"").find("WordPiece"), std::string::npos);
    EXPECT_NE(message_of("/normalizer", "{\"type\": \"NFKC\"}").find("NFKC"), std::string::npos);
    EXPECT_NE(message_of("/added_tokens", "[]").find("<|endoftext|>"), std::string::npos);
    EXPECT_NE(message_of("/model/merges", "[\"x yz\"]").find("no piece"), std::string::npos);
    EXPECT_NE(message_of("/model/vocab", "{}").find("empty"), std::string::npos);
    EXPECT_NE(message_of("/model/vocab", "{\"a\": 99999999}").find("id"), std::string::npos);
    EXPECT_EQ(message_of("/version", "\"2.0\""), "read");
    EXPECT_FALSE(LanguageTokenizer::parse(as_bytes(std::string_view("{\"model\": 3}"))));
    EXPECT_FALSE(LanguageTokenizer::parse(as_bytes(std::string_view("{"))));
    EXPECT_FALSE(LanguageTokenizer::parse({}));
}

}  // namespace
}  // namespace dedloc::text
