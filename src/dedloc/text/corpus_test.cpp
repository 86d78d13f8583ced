#include "dedloc/text/corpus.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <unistd.h>

#include "dedloc/base/random.h"
#include "dedloc/text/block_cutter.h"
#include "dedloc/text/king_james.h"
#include "dedloc/text/text_testing.h"
#include "dedloc/text/utf8.h"

namespace dedloc::text {
namespace {

Result<std::shared_ptr<const Corpus>> open(const Folder& folder,
                                           const std::string& sources,
                                           std::uint32_t block_bytes = 512) {
    DEDLOC_TRY(const auto parsed, parse_sources(sources));
    return Corpus::open(parsed,
                        {.data_directory = folder.path(),
                         .cache_directory = folder.path() + "/cache",
                         .block_bytes = block_bytes});
}

std::string error_of(const Folder& folder, const std::string& sources) {
    const auto corpus = open(folder, sources);
    return corpus ? "" : corpus.error().message();
}

std::vector<std::string> all_sentences(const Corpus& corpus, std::size_t source = 0) {
    std::vector<Block> blocks = corpus.blocks(source, Split::train);
    const auto& held_out = corpus.blocks(source, Split::held_out);
    blocks.insert(blocks.end(), held_out.begin(), held_out.end());
    std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
        return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
    });
    std::vector<std::string> sentences;
    for (const Block& block : blocks) {
        const auto documents = corpus.read(source, block);
        EXPECT_TRUE(documents);
        for (const Document& document : *documents)
            sentences.insert(sentences.end(), document.begin(), document.end());
    }
    return sentences;
}

TEST(Utf8, refuses_what_rfc_3629_refuses) {
    EXPECT_FALSE(first_invalid("plain, ä, €, 😀, U+10FFFF: \xF4\x8F\xBF\xBF"));
    for (const std::string_view bad : {"\x80",
                                       "\xC0\x80",
                                       "\xC1\xBF",
                                       "\xE0\x80\x80",
                                       "\xED\xA0\x80",
                                       "\xF4\x90\x80\x80",
                                       "\xF5\x80\x80\x80",
                                       "\xE2\x82",
                                       "\xE2\x28\xA1"}) {
        EXPECT_EQ(first_invalid("twelve bytes" + std::string(bad)), 12u);
    }
    EXPECT_EQ(character_boundary("a€b", 3), 1u);
    EXPECT_EQ(character_boundary("a€b", 4), 4u);
    EXPECT_EQ(character_boundary("a€b", 9), 5u);
}

TEST(Sentences, end_at_punctuation_but_not_after_abbreviations) {
    const auto split = [](std::string_view text) {
        return sentences_of(text, SentenceRule::punctuation);
    };
    using Sentences = std::vector<std::string>;
    EXPECT_EQ(split("One. Two! Three? \"Four.\" Five…"),
              (Sentences{"One.", "Two!", "Three?", "\"Four.\"", "Five…"}));
    EXPECT_EQ(split("Mr. Smith met J. S. Bach, e.g. in Leipzig. It cost 3.14 marks."),
              (Sentences{"Mr. Smith met J. S. Bach, e.g. in Leipzig.", "It cost 3.14 marks."}));
    EXPECT_EQ(split("\"What?\" said he... and left. So did I. All went."),
              (Sentences{"\"What?\" said he... and left.", "So did I.", "All went."}));
    EXPECT_EQ(split("A line\nbroken in\r\ntwo.\n\nNo stop here\n \n\nEnd"),
              (Sentences{"A line broken in  two.", "No stop here", "End"}));
    EXPECT_EQ(split("আমি যাই। তুমি এসো।সে আসে"), (Sentences{"আমি যাই।", "তুমি এসো।", "সে আসে"}));
    EXPECT_EQ(split("今日は。明日！"), (Sentences{"今日は。", "明日！"}));
    EXPECT_TRUE(split(" \n\n\t").empty());
    EXPECT_EQ(sentences_of("one. two\n\n three \n", SentenceRule::line),
              (Sentences{"one. two", "three"}));
}

TEST(Sentences, without_punctuation_are_cut_at_spaces) {
    std::string text;
    while (text.size() < 3 * sentence_bytes_max) text += "সব ";
    std::string joined;
    for (const std::string& piece : sentences_of(text, SentenceRule::punctuation)) {
        EXPECT_LE(piece.size(), sentence_bytes_max);
        EXPECT_FALSE(first_invalid(piece));
        joined += piece + " ";
    }
    EXPECT_EQ(joined, text);
    const auto endless = sentences_of(std::string(3 * sentence_bytes_max, 'x'), SentenceRule::line);
    EXPECT_EQ(endless.size(), 3u);
}

TEST(Sources, are_read_from_one_line_and_written_as_one) {
    for (const std::string text :
         {"kjv",
          "text:books",
          "jsonl:oscar?weight=0.77&field=content, text:wiki?weight=0.23&documents=paragraph",
          "text:/abs/x.txt?documents=line&sentences=line, kjv?weight=2"}) {
        const auto sources = parse_sources(text);
        ASSERT_TRUE(sources) << text << to_string(sources.error());
        EXPECT_EQ(to_string(*sources), text);
    }
    const std::vector<std::pair<std::string, std::string>> bad{
        {"bible", "'bible' is not a source of text; write kjv, text:PATH or jsonl:PATH"},
        {"", "'' is not a source"},
        {"csv:x", "there is no format of text 'csv'; known: text, jsonl"},
        {"text:", "is not a source"},
        {"text:x?weight=0", "weight '0' is not a number above 0 and at most 1000000"},
        {"text:x?weight=nan", "weight 'nan'"},
        {"text:x?weight=1x", "weight '1x'"},
        {"text:x?field=y", "not 'field=y'"},
        {"text:x?documents=page", "there is no unit of documents 'page'"},
        {"text:x?documents", "should be an option"},
        {"kjv?sentences=line", "kjv takes no option but weight"},
        {"kjv,", "'' is not a source"}};
    for (const auto& [text, words] : bad) {
        const auto sources = parse_sources(text);
        ASSERT_FALSE(sources) << text;
        EXPECT_NE(sources.error().message().find(words), std::string::npos)
            << sources.error().message();
    }
    std::string many = "kjv";
    for (std::size_t i = 0; i < sources_max; ++i) many += ",kjv";
    EXPECT_FALSE(parse_sources(many));
}

TEST(Corpus, reads_every_sentence_once_whatever_the_size_of_blocks) {
    const Folder folder;
    Random random(7);
    std::vector<std::string> written;
    for (const char* name : {"b/two.txt", "a.txt", "b/one.txt"}) {
        std::string content = "\xEF\xBB\xBF";
        for (int i = 0; i < 200; ++i) {
            std::string sentence = "S" + std::to_string(random.below(1000));
            for (std::uint64_t k = random.below(12); k > 0; --k) sentence += " wörd";
            content += sentence + "." + (random.chance(0.2) ? "\n\n" : "\n");
        }
        folder.write(name, content);
    }
    folder.write("ignored.md", "\xFF");
    folder.write("empty.txt", "");
    const auto whole = open(folder, "text:.", block_bytes_max);
    ASSERT_TRUE(whole) << to_string(whole.error());
    const auto expected = all_sentences(**whole);
    EXPECT_EQ(expected.size(), 600u);
    for (const std::uint32_t bytes : {256u, 300u, 1000u, 5000u}) {
        const auto corpus = open(folder, "text:.", bytes);
        ASSERT_TRUE(corpus);
        EXPECT_EQ(all_sentences(**corpus), expected) << bytes;
        EXPECT_EQ((*corpus)->fingerprint(), (*whole)->fingerprint());
        for (const Block& block : (*corpus)->blocks(0, Split::train))
            EXPECT_LE(block.bytes, bytes + 4);
    }
    folder.write("a.txt", "Other words.");
    EXPECT_NE((*open(folder, "text:."))->fingerprint(), (*whole)->fingerprint());
}

// The folder that was given may be a whole home.
TEST(Corpus, finds_nothing_hidden) {
    const Folder folder;
    folder.write("a.txt", "Known.");
    folder.write("books/b.txt", "Known, too.");
    for (const char* hidden : {".note.txt", ".ssh/x.txt", ".ssh/y/x.txt", "books/.x/x.txt"})
        folder.write(hidden, "Secret.");
    const auto corpus = open(folder, "text:.");
    ASSERT_TRUE(corpus) << to_string(corpus.error());
    EXPECT_EQ(all_sentences(**corpus), (std::vector<std::string>{"Known.", "Known, too."}));
    EXPECT_EQ(error_of(folder, "text:.ssh"), "") << "but what is named is read";
}

TEST(Corpus, units_of_documents) {
    const Folder folder;
    folder.write("x.txt", "One. Two.\nThree.\n\nFour.\n");
    const auto count = [&](const std::string& sources) {
        const auto corpus = open(folder, sources);
        EXPECT_TRUE(corpus);
        const auto documents = (*corpus)->read(0, (*corpus)->blocks(0, Split::train).front());
        std::vector<std::size_t> sizes;
        for (const Document& document : *documents) sizes.push_back(document.size());
        return sizes;
    };
    EXPECT_EQ(count("text:x.txt"), (std::vector<std::size_t>{4}));
    EXPECT_EQ(count("text:x.txt?documents=paragraph"), (std::vector<std::size_t>{3, 1}));
    EXPECT_EQ(count("text:x.txt?documents=line"), (std::vector<std::size_t>{2, 1, 1}));
}

TEST(Corpus, reads_json_lines_and_leaves_out_bad_ones) {
    const Folder folder;
    std::string lines;
    for (int i = 0; i < 100; ++i)
        lines +=
            fmt::format("{{\"id\": {}, \"content\": \"First {}. Second\\n\\nthird.\"}}\n", i, i);
    folder.write("x.jsonl", lines + "{\"content\": 3}\nnot json\n{\"content\": \"Last.\"}");
    const auto corpus = open(folder, "jsonl:x.jsonl?field=content");
    ASSERT_TRUE(corpus) << to_string(corpus.error());
    const auto sentences = all_sentences(**corpus);
    EXPECT_EQ(sentences.size(), 301u);
    EXPECT_EQ(sentences.back(), "Last.");
    EXPECT_EQ((*corpus)->bad_records(), 2u);
    EXPECT_EQ(error_of(folder, "jsonl:x.jsonl"),
              folder.path() +
                  "/x.jsonl, first line: no field 'text' with text (fields with text: "
                  "content); name the right one with ?field=NAME");
    folder.write("array.jsonl", "[1, 2]\n");
    EXPECT_NE(error_of(folder, "jsonl:array.jsonl").find("not a JSON record"), std::string::npos);
}

TEST(Corpus, refuses_json_lines_that_begin_well_and_go_on_without_text) {
    const Folder folder;
    const auto lines = [](int good, int bad) {
        std::string text;
        for (int i = 0; i < good; ++i) text += fmt::format("{{\"text\": \"Good {}. Yes.\"}}\n", i);
        for (int i = 0; i < bad; ++i) text += fmt::format("{{\"body\": \"Bad {}. Yes.\"}}\n", i);
        return text;
    };
    folder.write("few.jsonl", lines(60, 40));
    EXPECT_EQ(error_of(folder, "jsonl:few.jsonl"), "");
    folder.write("many.jsonl", lines(40, 60));
    EXPECT_EQ(error_of(folder, "jsonl:many.jsonl"),
              fmt::format("60 of 100 records that were looked at have no text, such as "
                          "{}/many.jsonl, byte {}: no field 'text' with text (fields with text: "
                          "body); name the right one with ?field=NAME",
                          folder.path(),
                          lines(40, 0).size()));
    // A large one is not read whole for that.
    folder.write("large.jsonl", lines(4000, 16000));
    EXPECT_NE(error_of(folder, "jsonl:large.jsonl").find("looked at have no text"),
              std::string::npos);
}

TEST(Corpus, says_how_many_of_its_json_lines_are_left_out) {
    const Folder folder;
    std::string text;
    for (int i = 0; i < 100; ++i)
        text += i % 10 == 9 ? "{\"body\": \"Bad.\"}\n" : "{\"text\": \"Good. Yes.\"}\n";
    folder.write("x.jsonl", text);
    testing::internal::CaptureStderr();
    EXPECT_TRUE(open(folder, "jsonl:x.jsonl"));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("10 % of the records are left out: 10 of 100 that"), std::string::npos)
        << said;
}

TEST(Corpus, holds_out_evenly_and_never_everything) {
    const Folder folder;
    std::string text;
    for (int i = 0; i < 4000; ++i) text += fmt::format("Sentence number {}.\n", i);
    folder.write("x.txt", text);
    folder.write("tiny.txt", "Only this. And that.");
    const auto corpus = open(folder, "text:x.txt, text:tiny.txt", 256);
    ASSERT_TRUE(corpus);
    const double held = static_cast<double>((*corpus)->blocks(0, Split::held_out).size());
    const double all = held + static_cast<double>((*corpus)->blocks(0, Split::train).size());
    EXPECT_NEAR(held / all, 0.02, 0.005);
    EXPECT_EQ((*corpus)->blocks(1, Split::train).size(), 1u);
    EXPECT_EQ((*corpus)->blocks(1, Split::held_out).size(), 0u);
    std::uint64_t visited = 0;
    ASSERT_TRUE((*corpus)->visit_sentences(20'000, [&](const std::string& sentence) {
        visited += sentence.size();
        return true;
    }));
    EXPECT_NEAR(static_cast<double>(visited), 20'000, 3'000);
}

TEST(Corpus, says_what_is_wrong_with_bad_input) {
    const Folder folder;
    EXPECT_EQ(error_of(folder, "text:nowhere"),
              "there is no file or folder " + folder.path() +
                  "/nowhere; relative paths of a run's data are below the folder given with "
                  "--data");
    folder.write("no/x.md", "text");
    EXPECT_EQ(error_of(folder, "text:no"), "no file .txt in " + folder.path() + "/no");
    folder.write("latin/x.txt", std::string(700, 'a') + "\xE9t\xE9");
    EXPECT_EQ(error_of(folder, "text:latin"),
              folder.path() +
                  "/latin/x.txt: byte 700 is not UTF-8; convert the file (iconv -f "
                  "latin1 -t utf-8) or take it away");
    for (const std::string mark : {"\xFF\xFE", "\xFE\xFF"}) {
        folder.write("wide.txt", mark + std::string("a\0b\0", 4));
        EXPECT_EQ(error_of(folder, "text:wide.txt"),
                  folder.path() +
                      "/wide.txt is UTF-16; convert the file (iconv -f utf-16 -t utf-8) or take it "
                      "away");
    }
    folder.write("mac.txt", "one line\rand another\r");
    EXPECT_EQ(error_of(folder, "text:mac.txt"),
              folder.path() +
                  "/mac.txt: its lines end with CR alone, so that all of it is one line; convert "
                  "the file (tr '\\r' '\\n')");
    folder.write("windows.txt", "one line\r\nand another\r\n");
    EXPECT_EQ(error_of(folder, "text:windows.txt"), "");
    folder.write("binary/x.txt", std::string("ab\0cd", 5));
    EXPECT_NE(error_of(folder, "text:binary").find("byte 2 is zero, so this is no text"),
              std::string::npos);
    folder.write("empty/x.txt", "");
    folder.write("empty/y.txt", " \n\n\t");
    EXPECT_EQ(error_of(folder, "text:empty"),
              folder.path() + "/empty has no text: 2 files and nothing but white space");
    folder.write("long.jsonl",
                 "{\"text\": \"" + std::string(json_line_bytes_max + 1, 'x') + "\"}\n");
    EXPECT_EQ(error_of(folder, "jsonl:long.jsonl"),
              folder.path() +
                  "/long.jsonl: the line at byte 0 is longer than 16 MiB; are these "
                  "JSON lines, one record a line?");
    EXPECT_FALSE(Corpus::open({}, {}));
}

TEST(Corpus, a_gigantic_line_of_text_becomes_many_blocks) {
    const Folder folder;
    std::string text;
    while (text.size() < (3u << 20)) text += "wörter ohne ende ";
    folder.write("x.txt", text);
    const auto corpus = open(folder, "text:x.txt", 1000);
    ASSERT_TRUE(corpus) << to_string(corpus.error());
    std::string joined;
    for (const std::string& sentence : all_sentences(**corpus)) joined += sentence + " ";
    EXPECT_EQ(joined, text);
}

TEST(Corpus, tells_a_file_that_changed_from_one_that_cannot_be_read) {
    const Folder folder;
    const std::string path = folder.write("x.txt", std::string(2000, 'a') + ".");
    const auto corpus = open(folder, "text:x.txt");
    ASSERT_TRUE(corpus);
    const auto error_now = [&] {
        const auto documents = (*corpus)->read(0, (*corpus)->blocks(0, Split::train).back());
        return documents ? Error(ErrorKind::cancelled, "none") : documents.error();
    };
    EXPECT_EQ(error_now().message(), "none");
    const auto written = std::filesystem::last_write_time(path);
    folder.write("x.txt", std::string(2000, 'b') + ".");  // as large as before
    std::filesystem::last_write_time(path, written + std::chrono::milliseconds(1));
    EXPECT_EQ(error_now().kind(), ErrorKind::bad_input);
    folder.write("x.txt", "short");
    EXPECT_EQ(error_now().kind(), ErrorKind::bad_input);
    std::filesystem::remove(path);
    EXPECT_EQ(error_now().kind(), ErrorKind::local_fault);
    EXPECT_EQ(error_now().message(), "cannot read " + path + ": No such file or directory");
}

TEST(Corpus, names_the_folders_that_it_leaves_out) {
    const Folder elsewhere;
    elsewhere.write("z.txt", "Not here. Nor there.");
    const Folder folder;
    folder.write("books/a.txt", "One. Two.");
    folder.write("books/locked/b.txt", "Three. Four.");
    std::filesystem::create_directory_symlink(elsewhere.path(), folder.path() + "/books/link");
    std::filesystem::permissions(folder.path() + "/books/locked", std::filesystem::perms::none);
    testing::internal::CaptureStderr();
    const auto corpus = open(folder, "text:books");
    const std::string said = testing::internal::GetCapturedStderr();
    std::filesystem::permissions(folder.path() + "/books/locked", std::filesystem::perms::all);
    ASSERT_TRUE(corpus) << to_string(corpus.error());
    EXPECT_NE(said.find("/books/link is left out: it is a link to a folder; name it as a source"),
              std::string::npos)
        << said;
    EXPECT_EQ(all_sentences(**open(folder, "text:books/link")).size(), 2u);
    if (::geteuid() == 0) return;  // who may read everything
    EXPECT_NE(said.find("/books/locked is left out: Permission denied"), std::string::npos) << said;
    EXPECT_EQ(all_sentences(**corpus).size(), 2u);
}

TEST(KingJames, says_which_package_is_missing_or_broken) {
    const Folder folder;
    const auto missing = king_james_bible(folder.path() + "/cache", "/nowhere/bible");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().kind(), ErrorKind::not_found);
    EXPECT_NE(missing.error().message().find("sudo apt-get install bible-kjv"), std::string::npos);
    const auto broken = king_james_bible(folder.path() + "/cache", "/bin/false");
    ASSERT_FALSE(broken);
    EXPECT_NE(broken.error().message().find("/bin/false failed with exit code 1"),
              std::string::npos);
    const auto cut = king_james_text("\nGenesis 1\n\n  1 In the beginning\n\n");
    ASSERT_FALSE(cut);
    EXPECT_NE(cut.error().message().find("1 chapters and 1 verses instead of 1189 and 31102"),
              std::string::npos);
}

TEST(KingJames, is_whole) {
    if (!std::filesystem::exists(bible_program))
        GTEST_SKIP() << "wants the Debian package bible-kjv";
    const Folder folder;
    const auto corpus = open(folder, "kjv", 16384);
    ASSERT_TRUE(corpus) << to_string(corpus.error());
    const auto verses = all_sentences(**corpus);
    ASSERT_EQ(verses.size(), king_james_verses);
    EXPECT_EQ(verses.front(), "In the beginning God created the heaven and the earth.");
    EXPECT_EQ(verses.back(), "The grace of our Lord Jesus Christ be with you all. Amen.");
    // A damaged cache is made anew.
    std::filesystem::resize_file(folder.path() + "/cache/king-james-bible.txt", 1000);
    const auto again = open(folder, "kjv", 16384);
    ASSERT_TRUE(again);
    EXPECT_EQ((*again)->fingerprint(), (*corpus)->fingerprint());
}

}  // namespace
}  // namespace dedloc::text
