#include "dedloc/text/tokenizer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include "dedloc/base/random.h"
#include "dedloc/text/corpus.h"
#include "dedloc/text/king_james.h"
#include "dedloc/text/text_testing.h"
#include "dedloc/text/tokenizer_training.h"

namespace dedloc::text {
namespace {

constexpr std::string_view words[] = {
    "the",  "Lord",  "said",  "unto",  "Moses", "people", "And",   "it",   "came",  "to",  "pass",
    "that", "king",  "went",  "forth", "into",  "city",   "house", "days", "years", "GOD", "12",
    "345",  "Größe", "naïve", "ﬁsh",   "Ⅷ",     "…",      "“so”",  "তুমি",  "আমি",   "যাই", "।"};

std::string random_sentence(Random& random) {
    std::string sentence;
    for (std::uint64_t k = 3 + random.below(12); k > 0; --k) {
        if (random.chance(0.5)) {
            sentence += words[random.below(std::size(words))];
        } else {  // one of 300 made of letters
            std::uint64_t letters = base::mix64(random.below(300));
            for (std::uint64_t l = 2 + letters % 5; l > 0; --l, letters /= 26)
                sentence += static_cast<char>('a' + letters % 26);
        }
        sentence += random.chance(0.1) ? "  " : random.chance(0.1) ? ", " : " ";
    }
    return sentence + ".";
}

struct Trained {
    Folder folder;
    std::shared_ptr<const Corpus> corpus;
    std::shared_ptr<const Tokenizer> tokenizer;
};

Trained train(const std::string& recipe_text) {
    Trained trained;
    Random random(11);
    std::string text;
    for (int i = 0; i < 2000; ++i) text += random_sentence(random) + "\n";
    trained.folder.write("x.txt", text);
    trained.corpus = *Corpus::open(*parse_sources("text:x.txt?sentences=line"),
                                   {.data_directory = trained.folder.path()});
    auto tokenizer = train_tokenizer(
        *trained.corpus, *parse_recipe(recipe_text), {.scratch_directory = trained.folder.path()});
    EXPECT_TRUE(tokenizer) << to_string(tokenizer.error());
    if (tokenizer) trained.tokenizer = *tokenizer;
    return trained;
}

// One for all tests that only read it.
const Trained& shared() {
    static const Trained trained = train("vocabulary=160");
    return trained;
}

using Library = sentencepiece::SentencePieceProcessor;

std::unique_ptr<const Library> library_with(const Tokenizer& tokenizer) {
    auto library = std::make_unique<Library>();
    EXPECT_TRUE(library->LoadFromSerializedProto(as_text(tokenizer.file())).ok());
    return library;
}

void expect_same_ids(const Tokenizer& ours, const Library& library, const std::string& text) {
    std::vector<int> theirs;
    ASSERT_TRUE(library.Encode(text, &theirs).ok());
    const auto ids = ours.encode(text);
    EXPECT_EQ(std::vector<int>(ids.begin(), ids.end()), theirs) << text;
}

TEST(Recipe, is_read_and_written_as_one_line) {
    const std::string text =
        "vocabulary=32000&normalization=nmt_nfkc&rules=bengali&split_digits=true&coverage=0.999";
    const auto recipe = parse_recipe(text);
    ASSERT_TRUE(recipe);
    EXPECT_EQ(to_string(*recipe), text);
    EXPECT_EQ(*parse_recipe(""), TokenizerRecipe{});
    const std::vector<std::pair<std::string, std::string>> bad{
        {"vocabulary=5", "vocabulary '5' is not a number above 31 and at most 1000000"},
        {"vocabulary", "should be an option"},
        {"normalization=nfd", "there is no normalization 'nfd'; known: identity, nmt_nfkc, "},
        {"rules=hindi", "there is no set of rules 'hindi'; known: none, bengali"},
        {"split_digits=1", "known: false, true"},
        {"coverage=2", "coverage '2' is not a number"},
        {"pieces=7", "not 'pieces=7'"}};
    for (const auto& [line, sentence] : bad) {
        const auto result = parse_recipe(line);
        ASSERT_FALSE(result) << line;
        EXPECT_NE(result.error().message().find(sentence), std::string::npos)
            << result.error().message();
    }
}

TEST(BengaliRules, are_those_of_sahajbert) {
    EXPECT_EQ(bengali_rules("শেষ|"), "শেষ।");
    EXPECT_EQ(bengali_rules("ক\u09E4খ\u09E5গ\u09F7"), "ক।খ॥গ।");
    EXPECT_EQ(bengali_rules("দুঃখ: অতঃপর:"), "দুঃখঃ অতঃপরঃ");
    EXPECT_EQ(bengali_rules("a:b ১২:৩০ |:"), "a:b ১২ঃ৩০ ।:");
    EXPECT_EQ(bengali_rules("\u09F7:"), "।:");
}

TEST(Tokenizer, has_the_special_pieces_of_huggingface_albert) {
    const Tokenizer& tokenizer = *shared().tokenizer;
    EXPECT_EQ(tokenizer.size(), 160u);
    const std::vector<std::string> names{"<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"};
    for (std::uint32_t id = 0; id < special_pieces; ++id) {
        EXPECT_EQ(tokenizer.piece(id), names[id]);
        EXPECT_TRUE(tokenizer.is_special(id));
    }
    EXPECT_FALSE(tokenizer.is_special(special_pieces));
    EXPECT_EQ(tokenizer.special().mask, 4u);
    // Special pieces' names in a text are only text.
    for (const std::uint32_t id : tokenizer.encode("[MASK] <pad> [CLS]"))
        EXPECT_TRUE(id == tokenizer.special().unknown || !tokenizer.is_special(id));
    EXPECT_EQ(tokenizer.recipe()->vocabulary, 160u);
}

TEST(Tokenizer, gives_the_ids_of_sentencepiece) {
    const auto library = library_with(*shared().tokenizer);
    Random random(5);
    for (int i = 0; i < 500; ++i)
        expect_same_ids(*shared().tokenizer, *library, random_sentence(random));
    for (const std::string text : {"",
                                   " ",
                                   "   leading and   double  spaces ",
                                   "unknown ☃☃ letters Ωmega ☃ x",
                                   "\x01 control\tand\nline \xE2\x80\x8B zero width",
                                   "\xE2\x96\x81 the symbol itself \xE2\x96\x81",
                                   "broken \xFF\xC3 bytes \xE2\x82",
                                   "Ａ ｆｕｌｌ ｗｉｄｔｈ ﬃ ligature é e\xCC\x81 한국어"})
        expect_same_ids(*shared().tokenizer, *library, text);
    // Letters of all kinds, in any order.
    for (int i = 0; i < 500; ++i) {
        std::string text;
        for (std::uint64_t k = random.below(30); k > 0; --k) {
            const Bytes raw = random.bytes(1 + random.below(3));
            text += random.chance(0.3) ? std::string(as_text(raw)) : random_sentence(random);
        }
        expect_same_ids(*shared().tokenizer, *library, text);
    }
}

TEST(Tokenizer, gives_the_ids_of_sentencepiece_with_symbols_of_the_user) {
    const Trained& trained = shared();
    std::ifstream lines(trained.folder.path() + "/x.txt");
    struct Lines : sentencepiece::SentenceIterator {
        explicit Lines(std::ifstream& file) : file_(file) { Lines::Next(); }
        bool done() const override { return done_; }
        void Next() override { done_ = !std::getline(file_, line_); }
        const std::string& value() const override { return line_; }
        sentencepiece::util::Status status() const override { return {}; }
        std::ifstream& file_;
        std::string line_;
        bool done_ = false;
    } iterator(lines);
    std::string model;
    const auto status = sentencepiece::SentencePieceTrainer::Train(
        std::unordered_map<std::string, std::string>{{"vocab_size", "150"},
                                                     {"pad_id", "0"},
                                                     {"unk_id", "1"},
                                                     {"bos_id", "-1"},
                                                     {"eos_id", "-1"},
                                                     {"control_symbols", "[CLS],[SEP],[MASK]"},
                                                     {"user_defined_symbols", "(,),.,ing"},
                                                     {"minloglevel", "1"}},
        &iterator,
        &model);
    ASSERT_TRUE(status.ok()) << status.ToString();
    const auto ours = Tokenizer::parse(as_bytes(model));
    ASSERT_TRUE(ours) << to_string(ours.error());
    EXPECT_FALSE((*ours)->recipe());
    const auto library = library_with(**ours);
    Random random(6);
    for (int i = 0; i < 200; ++i) expect_same_ids(**ours, *library, random_sentence(random));
    expect_same_ids(**ours, *library, "going (to and fro).. sing (ing");
}

TEST(Tokenizer, decodes_to_the_normalized_text) {
    const Tokenizer& tokenizer = *shared().tokenizer;
    const auto ids = tokenizer.encode("And it came  to pass");
    std::vector<std::int64_t> wide(ids.begin(), ids.end());
    EXPECT_EQ(tokenizer.decode(wide), "and it came to pass");
    wide.insert(wide.begin(), 2);
    wide.insert(wide.end(), {4, 3, 0, 0, 99999, -1});
    EXPECT_EQ(tokenizer.decode(wide), "[CLS] and it came to pass [MASK] [SEP] ? ?");
}

TEST(Tokenizer, training_repeats_byte_for_byte) {
    const Trained again = train("vocabulary=160");
    ASSERT_TRUE(again.tokenizer);
    EXPECT_EQ(again.tokenizer->hash(), shared().tokenizer->hash());
}

TEST(Tokenizer, follows_the_recipe) {
    const Trained cased = train("vocabulary=170&normalization=nmt_nfkc&split_digits=true");
    ASSERT_TRUE(cased.tokenizer);
    EXPECT_NE(cased.tokenizer->encode("Lord"), cased.tokenizer->encode("lord"));
    EXPECT_EQ(shared().tokenizer->encode("Lord"), shared().tokenizer->encode("lord"));
    for (std::uint32_t id = special_pieces; id < cased.tokenizer->size(); ++id) {
        const std::string_view piece = cased.tokenizer->piece(id);
        const auto digits =
            std::count_if(piece.begin(), piece.end(), [](char c) { return c >= '0' && c <= '9'; });
        EXPECT_LE(digits, 1) << piece;
    }
    const Trained bengali = train("vocabulary=160&rules=bengali&split_digits=true");
    ASSERT_TRUE(bengali.tokenizer);
    EXPECT_EQ(bengali.tokenizer->recipe()->rules, ReplacementRules::bengali);
    EXPECT_EQ(bengali.tokenizer->encode("আমি যাই |"), bengali.tokenizer->encode("আমি যাই ।"));
    // After the normalization: the full-width bar is one.
    EXPECT_EQ(bengali.tokenizer->encode("আমি｜"), bengali.tokenizer->encode("আমি।"));
}

TEST(Tokenizer, says_why_it_cannot_be_trained) {
    const Trained& trained = shared();
    const auto train_with = [&](const std::string& recipe, const std::string& program = "") {
        return train_tokenizer(*trained.corpus,
                               *parse_recipe(recipe),
                               {.scratch_directory = trained.folder.path(), .program = program});
    };
    const auto many = train_with("vocabulary=30000");
    ASSERT_FALSE(many);
    EXPECT_EQ(many.error().kind(), ErrorKind::bad_input);
    EXPECT_NE(many.error().message().find("Vocabulary size too high (30000). Please set it to"),
              std::string::npos)
        << many.error().message();
    const auto few = train_with("vocabulary=32");
    ASSERT_FALSE(few);
    EXPECT_NE(few.error().message().find("smaller than required"), std::string::npos)
        << few.error().message();
    const auto none = train_with("vocabulary=160", "/nowhere/helper");
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().message().find("/nowhere/helper is not there"), std::string::npos);
}

TEST(Tokenizer, tells_that_it_is_still_being_trained) {
    const Trained& trained = shared();
    std::vector<double> told;
    const auto tokenizer =
        train_tokenizer(*trained.corpus,
                        *parse_recipe("vocabulary=160"),
                        {.scratch_directory = trained.folder.path(),
                         .progress = [&told](double seconds) { told.push_back(seconds); },
                         .progress_every_s = 0.001});
    ASSERT_TRUE(tokenizer);
    ASSERT_FALSE(told.empty());
    EXPECT_DOUBLE_EQ(told.front(), 0.001);
}

TEST(Tokenizer, is_loaded_only_with_the_hash_that_the_run_names) {
    const Trained& trained = shared();
    const std::string path = trained.folder.write("t.model", as_text(trained.tokenizer->file()));
    EXPECT_TRUE(Tokenizer::load(path));
    EXPECT_TRUE(Tokenizer::load(path, trained.tokenizer->hash()));
    const auto other = Tokenizer::load(path, Digest{});
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().kind(), ErrorKind::conflict);
    EXPECT_NE(other.error().message().find("and the run wants 00000000…"), std::string::npos);
    EXPECT_EQ(Tokenizer::load(trained.folder.path() + "/none").error().kind(),
              ErrorKind::not_found);
    EXPECT_EQ(Tokenizer::load(trained.folder.path()).error().kind(), ErrorKind::bad_input);
    const auto text = Tokenizer::load(trained.folder.path() + "/x.txt");
    ASSERT_FALSE(text);
    EXPECT_NE(text.error().message().find("not a tokenizer for dedloc"), std::string::npos);
}

TEST(Tokenizer, survives_damaged_files) {
    const Bytes& file = shared().tokenizer->file();
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        Random random(seed);
        Bytes damaged = file;
        for (std::uint64_t k = 1 + random.below(20); k > 0; --k)
            damaged[random.below(damaged.size())] = static_cast<std::uint8_t>(random.next());
        if (random.chance(0.3)) damaged.resize(random.below(damaged.size()));
        const auto tokenizer = Tokenizer::parse(damaged);
        if (!tokenizer) continue;
        (*tokenizer)->encode("The naïve ﬁsh of Ⅷ … “kings” তুমি ☃");
    }
}

// One length-delimited field of a protobuf message.
void append_field(Bytes& out, std::uint32_t number, ByteView content) {
    const auto varint = [&out](std::uint64_t value) {
        for (; value >= 128; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 128));
        out.push_back(static_cast<std::uint8_t>(value));
    };
    varint(number << 3 | 2);
    varint(content.size());
    base::append(out, content);
}

// A character map in which the letter "t" becomes so many letters.
Bytes map_with_replacement(std::size_t bytes) {
    constexpr std::uint32_t letter = 't';
    constexpr std::uint32_t units = 512;
    Bytes map;
    base::put_u32_le(map, units * 4);
    for (std::uint32_t i = 0; i < units; ++i) {
        // The root's children begin at 0; labels that are never asked for elsewhere.
        std::uint32_t unit = i == 0 ? 0 : i < 256 ? (i == 0xFE ? 0xFD : 0xFE) : 0;
        if (i == letter) unit = letter | 1u << 8 | 256u << 10;
        base::put_u32_le(map, unit);
    }
    map.resize(map.size() + bytes, 'a');
    map.push_back(0);
    return map;
}

TEST(Tokenizer, no_letter_becomes_megabytes) {
    const auto with_map = [](std::size_t bytes) {
        Bytes normalizer;
        append_field(normalizer, 2, map_with_replacement(bytes));
        Bytes file = shared().tokenizer->file();
        append_field(file, 3, normalizer);
        return Tokenizer::parse(file);
    };
    const auto longest = with_map(replacement_bytes_max);
    ASSERT_TRUE(longest) << to_string(longest.error());
    EXPECT_EQ((*longest)->normalizer().replace("t").size(), replacement_bytes_max);
    const auto longer = with_map(replacement_bytes_max + 1);
    ASSERT_FALSE(longer);
    EXPECT_NE(longer.error().message().find("replaces letters by more than 256 bytes"),
              std::string::npos)
        << longer.error().message();
}

TEST(Tokenizer, is_refused_when_its_pieces_would_take_gigabytes) {
    Bytes file = shared().tokenizer->file();
    for (std::size_t i = 0; i <= pieces_bytes_max / piece_bytes_max; ++i) {
        std::string text = fmt::format("{:08}", i);
        text.resize(piece_bytes_max, 'x');
        Bytes piece;
        append_field(piece, 1, as_bytes(text));
        append_field(file, 1, piece);
    }
    const auto large = Tokenizer::parse(file);
    ASSERT_FALSE(large);
    EXPECT_NE(large.error().message().find("bytes of text, at most 8388608"), std::string::npos)
        << large.error().message();
}

TEST(CachedTokenizer, is_made_once_and_replaced_by_the_runs_own) {
    const Trained& trained = shared();
    const std::string cache = trained.folder.path() + "/cache";
    const TokenizerRecipe recipe = *parse_recipe("vocabulary=140");
    const auto first = cached_tokenizer(*trained.corpus, recipe, cache);
    ASSERT_TRUE(first) << to_string(first.error());
    // The second time nothing is trained.
    const TrainingOptions no_helper{.program = "/nowhere/helper"};
    const auto second = cached_tokenizer(*trained.corpus, recipe, cache, std::nullopt, no_helper);
    ASSERT_TRUE(second);
    EXPECT_EQ((*first)->hash(), (*second)->hash());
    // A run with another tokenizer of this recipe: refused until its file has come.
    const Digest wanted = trained.tokenizer->hash();
    const auto other = cached_tokenizer(*trained.corpus, recipe, cache, wanted);
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().kind(), ErrorKind::conflict);
    EXPECT_FALSE(keep_tokenizer((*first)->file(), wanted, cache));
    EXPECT_TRUE(keep_tokenizer(trained.tokenizer->file(), wanted, cache));
    const auto kept = cached_tokenizer(*trained.corpus, recipe, cache, wanted, no_helper);
    ASSERT_TRUE(kept) << to_string(kept.error());
    EXPECT_EQ((*kept)->hash(), wanted);
}

TEST(CachedTokenizer, belongs_to_how_the_text_is_read) {
    const Folder folder;
    Random random(5);
    std::string records;
    for (int i = 0; i < 1000; ++i) {
        std::string title;
        for (std::uint64_t k = 3 + random.below(6); k > 0; --k)
            title += fmt::format("{} ", base::mix64(random.below(200)));
        records += fmt::format(
            "{{\"title\": \"{}\", \"content\": \"{}\"}}\n", title, random_sentence(random));
    }
    folder.write("x.jsonl", records);
    const std::string cache = folder.path() + "/cache";
    const TokenizerRecipe recipe = *parse_recipe("vocabulary=140");
    const auto open = [&](const std::string& field) {
        return *Corpus::open(*parse_sources("jsonl:x.jsonl?field=" + field),
                             {.data_directory = folder.path()});
    };
    const auto titles = cached_tokenizer(*open("title"), recipe, cache);
    ASSERT_TRUE(titles) << to_string(titles.error());
    const auto contents = cached_tokenizer(*open("content"), recipe, cache);
    ASSERT_TRUE(contents) << to_string(contents.error());
    EXPECT_NE((*titles)->hash(), (*contents)->hash());
}

TEST(CachedTokenizer, of_a_run_is_found_whatever_it_was_made_of) {
    const Trained& trained = shared();
    const Folder cache;
    cache.write("trained-0123.model", as_text(trained.tokenizer->file()));
    cache.write("trained-4567.model", "damaged");
    const auto found = cached_tokenizer(*trained.corpus,
                                        *parse_recipe("vocabulary=160"),
                                        cache.path(),
                                        trained.tokenizer->hash(),
                                        {.program = "/nowhere/helper"});
    ASSERT_TRUE(found) << to_string(found.error());
    EXPECT_EQ((*found)->hash(), trained.tokenizer->hash());
}

TEST(CachedTokenizer, is_read_from_a_cache_that_cannot_be_written) {
    const Trained& trained = shared();
    const Folder cache;
    const TokenizerRecipe recipe = *parse_recipe("vocabulary=160");
    ASSERT_TRUE(cached_tokenizer(*trained.corpus, recipe, cache.path()));
    for (const auto& entry : std::filesystem::directory_iterator(cache.path())) {
        if (entry.path().extension() != ".lock") continue;
        std::filesystem::remove(entry.path());  // root could write in spite of permissions
        std::filesystem::create_directory(entry.path());
    }
    const auto again = cached_tokenizer(*trained.corpus, recipe, cache.path());
    EXPECT_TRUE(again) << to_string(again.error());
}

}  // namespace
}  // namespace dedloc::text
