#include "dedloc/folders/sketch.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "dedloc/base/random.h"

namespace dedloc::folders {
namespace {

Digest digest_of(std::uint64_t number) {
    Digest digest;
    std::ranges::copy(Random(number).bytes(digest.bytes.size()), digest.bytes.begin());
    return digest;
}

FileSketch sketch_of(std::size_t count) {
    FileSketch sketch;
    for (std::size_t i = 0; i < count; ++i)
        sketch.add(fmt::format("class{}/{}.png", i % 10, i), digest_of(i));
    return sketch;
}

TEST(FileSketch, comes_back_from_its_text) {
    const FileSketch sketch = sketch_of(1000);
    EXPECT_EQ(sketch.text().size(), FileSketch::text_bytes);
    const auto back = FileSketch::parse(sketch.text());
    ASSERT_TRUE(back) << to_string(back.error());
    EXPECT_EQ(back->files_count(), 1000u);
    EXPECT_EQ(back->text(), sketch.text());
    EXPECT_FALSE(FileSketch::parse("abc"));
    EXPECT_FALSE(FileSketch::parse(std::string(FileSketch::text_bytes, '!')));
}

TEST(FileSketch, tells_which_files_of_many_differ) {
    FileSketch here = sketch_of(20'000);
    FileSketch there = sketch_of(20'000);
    here.add("class1/mine.png", digest_of(1));
    there.add("class2/theirs.png", digest_of(2));
    here.add("class3/other.png", digest_of(3));
    there.add("class3/other.png", digest_of(4));
    const FileDifferences found = differences(here, there);
    EXPECT_TRUE(found.complete);
    ASSERT_EQ(found.only_here.size(), 2u);
    ASSERT_EQ(found.only_there.size(), 2u);
    const auto has = [](const auto& files, std::string_view path) {
        return std::ranges::any_of(files,
                                   [&](const auto& file) { return file.path == path_key(path); });
    };
    EXPECT_TRUE(has(found.only_here, "class1/mine.png"));
    EXPECT_TRUE(has(found.only_here, "class3/other.png"));
    EXPECT_TRUE(has(found.only_there, "class2/theirs.png"));
    EXPECT_TRUE(has(found.only_there, "class3/other.png"));
    EXPECT_EQ(folder_of_key(path_key("class2/theirs.png")),
              folder_of_key(path_key("class2/1.png")));
}

TEST(FileSketch, reads_out_six_differences_nearly_always_and_never_wrong_ones) {
    int whole = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        FileSketch here = sketch_of(50);
        const FileSketch there = here;
        for (std::uint64_t i = 0; i < 6; ++i)
            here.add(fmt::format("new/{}-{}.png", seed, i), digest_of(1000 * seed + i));
        const FileDifferences found = differences(here, there);
        EXPECT_TRUE(found.only_there.empty()) << "seed " << seed;
        if (found.complete) {
            ++whole;
            EXPECT_EQ(found.only_here.size(), 6u) << "seed " << seed;
        }
    }
    EXPECT_GE(whole, 185);
}

TEST(FileSketch, of_two_quite_different_folders_says_that_it_does_not_know_all) {
    FileSketch here = sketch_of(5000);
    EXPECT_FALSE(differences(here, FileSketch()).complete);
    EXPECT_TRUE(differences(here, here).complete);
    EXPECT_TRUE(differences(here, here).only_here.empty());
}

TEST(FileSketch, that_is_forged_costs_no_time) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        Bytes bytes = Random(seed).bytes(389);
        bytes[0] = 1;
        const auto forged = FileSketch::parse(base::to_base64url(bytes));
        ASSERT_TRUE(forged);
        EXPECT_LE(differences(sketch_of(3), *forged).only_there.size(), 24u);
    }
}

}  // namespace
}  // namespace dedloc::folders
