#include "dedloc/images/folder.h"

#include <atomic>
#include <gtest/gtest.h>

#include "dedloc/images/images_testing.h"
#include "dedloc/images/read_ahead.h"

namespace dedloc::images {
namespace {

Bytes png(std::uint8_t shade) { return encode_png(sample_picture(8, 8, shade)); }

TEST(ImageFolder, has_a_class_for_each_folder_in_the_same_order_for_everybody) {
    const TemporaryFolder folder;
    folder.write("n02/b.PNG", png(1));
    folder.write("n01/a.jpg", encode_jpeg(sample_picture(8, 8, 2)));
    folder.write("n01/deep/c.jpeg", encode_jpeg(sample_picture(8, 8, 3)));
    folder.write("n01/readme.txt", as_bytes("no picture"));
    std::size_t told = 0;
    const auto opened = ImageFolder::open(
        folder.path(), [&](std::size_t done, std::size_t all) { told += done == all ? 1 : 0; });
    ASSERT_TRUE(opened) << to_string(opened.error());
    EXPECT_EQ(told, 1u);
    EXPECT_EQ(opened->classes(), (std::vector<std::string>{"n01", "n02"}));
    ASSERT_EQ(opened->entries().size(), 3u);
    EXPECT_EQ(opened->entries()[0].path, "n01/a.jpg");
    EXPECT_EQ(opened->entries()[2].label, 1u);
    ASSERT_TRUE(opened->picture(2));
    EXPECT_EQ(opened->picture(2)->rgb, sample_picture(8, 8, 1).rgb);
}

TEST(ImageFolder, has_another_fingerprint_when_a_picture_differs) {
    const TemporaryFolder mine;
    const TemporaryFolder theirs;
    for (const TemporaryFolder* folder : {&mine, &theirs}) folder->write("a/1.png", png(1));
    EXPECT_EQ(ImageFolder::open(mine.path())->fingerprint(),
              ImageFolder::open(theirs.path())->fingerprint());
    theirs.write("a/1.png", png(2));
    EXPECT_NE(ImageFolder::open(mine.path())->fingerprint(),
              ImageFolder::open(theirs.path())->fingerprint());
}

TEST(ImageFolder, with_a_file_that_cannot_be_read_is_the_same_folder_as_without) {
    const TemporaryFolder mine;
    const TemporaryFolder theirs;
    for (const TemporaryFolder* folder : {&mine, &theirs}) {
        folder->write("a/1.png", png(1));
        folder->write("c/2.png", png(2));
    }
    mine.write("a/0.jpg", as_bytes("no picture at all"));
    mine.write("b/only.jpg", as_bytes("nor this"));  // no class without a picture
    const auto here = ImageFolder::open(mine.path());
    const auto there = ImageFolder::open(theirs.path());
    ASSERT_TRUE(here && there);
    EXPECT_EQ(here->fingerprint(), there->fingerprint());
    EXPECT_EQ(here->unreadable_count(), 2u);
    EXPECT_EQ(here->classes(), (std::vector<std::string>{"a", "c"}));
    EXPECT_EQ(here->entries()[1].label, 1u);
}

TEST(ImageFolder, takes_no_hidden_folder_for_a_class) {
    const TemporaryFolder folder;
    folder.write("a/1.png", png(1));
    folder.write(".ipynb_checkpoints/1-checkpoint.png", png(1));
    folder.write("a/.thumbnails/1.png", png(1));
    folder.write("a/._1.png", png(1));
    folder.write("lost+found/#12.png", png(1));
    const auto opened = ImageFolder::open(folder.path());
    ASSERT_TRUE(opened) << to_string(opened.error());
    EXPECT_EQ(opened->classes(), std::vector<std::string>{"a"});
    EXPECT_EQ(opened->entries().size(), 1u);
}

TEST(ImageFolder, says_that_pictures_beside_the_classes_are_left_out) {
    const TemporaryFolder folder;
    folder.write("a/1.png", png(1));
    folder.write("loose.png", png(1));
    testing::internal::CaptureStderr();
    const auto opened = ImageFolder::open(folder.path());
    const std::string said = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(opened);
    EXPECT_EQ(opened->entries().size(), 1u);
    EXPECT_NE(said.find("lie beside its folders"), std::string::npos) << said;
    EXPECT_NE(said.find("such as loose.png"), std::string::npos) << said;
}

// The damaged picture's header is whole, so opening takes it; whether its pixels are, only decoding
// can tell.
TEST(ImageFolder, decodes_a_damaged_picture_once) {
    const TemporaryFolder folder;
    Bytes damaged = encode_jpeg(sample_picture(64, 64));
    damaged.resize(damaged.size() / 2);
    folder.write("a/1.jpg", damaged);
    const auto opened = ImageFolder::open(folder.path());
    ASSERT_TRUE(opened) << to_string(opened.error());
    const auto first = opened->picture(0);
    ASSERT_FALSE(first);
    EXPECT_NE(first.error().message().find("a/1.jpg: the JPEG file is damaged"), std::string::npos);
    std::filesystem::remove(folder.path() + "/a/1.jpg");
    const auto second = opened->picture(0);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error(), first.error()) << "it is not even read again";
}

TEST(ImageFolder, leaves_out_what_cannot_be_read_and_names_it) {
    const TemporaryFolder folder;
    folder.write("a/good.png", png(1));
    folder.write("a/text.jpg", as_bytes("no picture at all"));
    const auto opened = ImageFolder::open(folder.path());
    ASSERT_TRUE(opened) << to_string(opened.error());
    EXPECT_EQ(opened->entries().size(), 1u);
    EXPECT_EQ(opened->unreadable_count(), 1u);
    ASSERT_EQ(opened->unreadable().size(), 1u);
    EXPECT_EQ(opened->unreadable()[0], "a/text.jpg: it is neither a JPEG nor a PNG file");
}

// "é" as macOS writes it in names of files, and as most keyboards do.
constexpr const char* accent_apart = "caf\x65\xCC\x81";
constexpr const char* accent_within = "caf\xC3\xA9";

TEST(ImageFolder, takes_names_that_look_alike_for_one) {
    const TemporaryFolder mine;
    const TemporaryFolder theirs;
    mine.write(fmt::format("{}/1.png", accent_apart), png(1));
    mine.write(fmt::format("{}/2.png", accent_within), png(2));
    for (const char* name : {"1.png", "2.png"})
        theirs.write(fmt::format("{}/{}", accent_within, name), png(name[0] == '1' ? 1 : 2));
    for (const TemporaryFolder* folder : {&mine, &theirs}) folder->write("cafz/3.png", png(3));
    const auto here = ImageFolder::open(mine.path());
    const auto there = ImageFolder::open(theirs.path());
    ASSERT_TRUE(here && there);
    EXPECT_EQ(here->classes(), (std::vector<std::string>{"cafz", accent_within}));
    EXPECT_EQ(here->classes(), there->classes());
    EXPECT_EQ(here->fingerprint(), there->fingerprint());
}

TEST(ImageFolder, reads_captions_from_every_editor_and_system) {
    const TemporaryFolder mine;
    const TemporaryFolder theirs;
    mine.write(fmt::format("{}.png", accent_apart), png(1));
    mine.write(
        "captions.jsonl",
        as_bytes(fmt::format("\xEF\xBB\xBF{{\"file\": \"{0}.png\", \"caption\": \"{0}\"}}\r\n"
                             " \r\n",
                             accent_within)));
    theirs.write(fmt::format("{}.png", accent_within), png(1));
    theirs.write(
        "captions.jsonl",
        as_bytes(fmt::format("{{\"file\": \"{0}.png\", \"caption\": \"{0}\"}}\n", accent_apart)));
    const auto here = ImageFolder::open(mine.path());
    const auto there = ImageFolder::open(theirs.path());
    ASSERT_TRUE(here) << to_string(here.error());
    ASSERT_TRUE(there) << to_string(there.error());
    EXPECT_EQ(here->entries()[0].caption, accent_within);
    EXPECT_EQ(here->fingerprint(), there->fingerprint());
    EXPECT_TRUE(here->picture(0)) << "under the name that it has here";
}

TEST(ImageFolder, says_of_each_line_that_is_no_caption_why) {
    const TemporaryFolder folder;
    folder.write("a.png", png(1));
    const auto why = [&folder](std::string_view captions) {
        folder.write("captions.jsonl", as_bytes(captions));
        const auto opened = ImageFolder::open(folder.path());
        return opened ? "nothing" : opened.error().message();
    };
    const std::string good = "{\"file\": \"a.png\", \"caption\": \"a hat\"}\n";
    EXPECT_EQ(why(good), "nothing");
    const auto said = [&](std::string_view captions, std::string_view words) {
        const std::string told = why(captions);
        EXPECT_NE(told.find(words), std::string::npos) << told;
    };
    said(good + "\n{\"file\": \"a.png\", \"caption\": \" \"}\n",
         "jsonl:3: a.png has an empty caption");
    said("{\"file\": \"a.png\"}", "jsonl:1: it must be an object like");
    said("a.png\ta hat", "jsonl:1: it must be an object like");
    said("{\"file\": \"b\\\\a.png\", \"caption\": \"x\"}", "folders are told apart by");
    said(good + "{\"file\": \"\xE9.png\"}", "line 2: byte");
    said(std::string_view("\xFF\xFE{\0", 4), "UTF-16");
}

TEST(ImageFolder, without_pictures_is_refused_with_what_is_expected) {
    const TemporaryFolder folder;
    const auto empty = ImageFolder::open(folder.path());
    ASSERT_FALSE(empty);
    EXPECT_NE(empty.error().message().find("no pictures that can be read"), std::string::npos);
    EXPECT_FALSE(ImageFolder::open(folder.path() + "/nowhere"));
}

TEST(ImageFolder, takes_captions_and_refuses_wrong_lines_by_their_number) {
    const TemporaryFolder folder;
    folder.write("x/1.png", png(1));
    folder.write("captions.jsonl",
                 as_bytes("{\"file\": \"x/1.png\", \"caption\": \"a hat\", \"group\": 3}\n"));
    const auto opened = ImageFolder::open(folder.path());
    ASSERT_TRUE(opened) << to_string(opened.error());
    EXPECT_TRUE(opened->has_captions());
    EXPECT_EQ(opened->entries()[0].caption, "a hat");
    const std::pair<const char*, const char*> wrong[] = {
        {"{\"file\": \"x/2.png\", \"caption\": \"b\"}", ":1: there is no picture x/2.png"},
        {"{\"file\": \"../x/1.png\", \"caption\": \"b\"}", ":1: '../x/1.png' is not below"},
        {"\n[1, 2]", ":2: it must be an object"},
        {"{\"file\": \"x/1.png\", \"caption\": 7}", ":1: it must be an object"}};
    for (const auto& [line, sentence] : wrong) {
        folder.write("captions.jsonl", as_bytes(line));
        const auto refused = ImageFolder::open(folder.path());
        ASSERT_FALSE(refused) << line;
        EXPECT_NE(refused.error().message().find(sentence), std::string::npos)
            << refused.error().message();
    }
}

TEST(ReadAhead, gives_what_its_function_gives_in_any_order) {
    for (const std::size_t threads : {0u, 1u, 3u}) {
        std::atomic<int> made = 0;
        ReadAhead<std::uint64_t> ahead(
            [&](std::uint64_t number) {
                ++made;
                return number * number;
            },
            threads,
            4);
        for (std::uint64_t i = 0; i < 200; ++i) EXPECT_EQ(ahead.take(i), i * i);
        for (const std::uint64_t number : {1000u, 3u, 4u, 2u, 2u, 900u})
            EXPECT_EQ(ahead.take(number), std::uint64_t{number} * number);
        EXPECT_GE(made.load(), 206);
    }
}

TEST(ReadAhead, makes_the_samples_behind_the_one_that_was_taken) {
    std::atomic<int> made = 0;
    ReadAhead<int> ahead(
        [&](std::uint64_t number) {
            ++made;
            made.notify_all();
            return static_cast<int>(number);
        },
        2,
        4);
    EXPECT_EQ(ahead.take(7), 7);
    for (int seen = made; seen < 5; seen = made) made.wait(seen);
    EXPECT_EQ(ahead.take(8), 8);
    EXPECT_EQ(ahead.hits(), 1u);
}

}  // namespace
}  // namespace dedloc::images
