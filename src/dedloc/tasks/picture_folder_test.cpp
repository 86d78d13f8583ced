#include "dedloc/tasks/picture_folder.h"

#include <gtest/gtest.h>

#include "dedloc/images/images_testing.h"

namespace dedloc::tasks {
namespace {

using images::TemporaryFolder;

void add_picture(const TemporaryFolder& folder, const std::string& name, std::uint8_t shade) {
    folder.write(name, images::encode_png(images::sample_picture(8, 8, shade)));
}

TEST(PictureFolder, tells_how_far_it_is) {
    const TemporaryFolder folder;
    for (const char* name : {"a/1.png", "a/2.png", "b/3.png"}) add_picture(folder, name, 1);
    std::vector<std::size_t> told;
    const TaskOptions options{
        .data_directory = folder.path(),
        .progress = [&told](std::string_view what, std::size_t done, std::size_t all) {
            EXPECT_EQ(what, "pictures");
            EXPECT_EQ(all, 3u);
            told.push_back(done);
        }};
    const auto opened = open_pictures(options, "swav.pictures", undecided_pictures);
    ASSERT_TRUE(opened);
    EXPECT_EQ((*opened)->entries().size(), 3u);
    EXPECT_EQ(told, (std::vector<std::size_t>{1, 2, 3}));
    ASSERT_TRUE(open_pictures(options, "swav.pictures", undecided_pictures));
    EXPECT_EQ(told.size(), 3u) << "a host opens it twice and reads it once";
}

TEST(PictureFolder, finds_out_that_it_is_not_the_runs) {
    const TemporaryFolder host;
    const TemporaryFolder same;
    const TemporaryFolder other;
    for (const TemporaryFolder* folder : {&host, &same, &other}) add_picture(*folder, "a.png", 1);
    add_picture(other, "b.png", 2);
    const auto open = [](const TemporaryFolder& folder, const std::string& hash) {
        return open_pictures({.data_directory = folder.path()}, "swav.pictures", hash);
    };
    const auto first = open(host, undecided_pictures);
    ASSERT_TRUE(first);
    const std::string hash = (*first)->fingerprint().hex();
    EXPECT_TRUE(open(same, hash));
    EXPECT_TRUE(open(other, any_pictures));
    const auto refused = open(other, hash);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind(), ErrorKind::conflict);
    EXPECT_NE(refused.error().message().find("the 2 pictures in " + other.path()),
              std::string::npos)
        << refused.error().message();
    EXPECT_NE(refused.error().message().find(hash.substr(0, 8)), std::string::npos);
}

TEST(PictureFolder, that_differs_is_refused_with_the_names_of_the_files) {
    const TemporaryFolder host;
    const TemporaryFolder mine;
    for (const TemporaryFolder* folder : {&host, &mine})
        for (int i = 0; i < 50; ++i) add_picture(*folder, fmt::format("cat/{}.png", i), 1);
    add_picture(mine, "cat/7.png", 2);
    add_picture(mine, "cat/new.png", 3);
    add_picture(host, "cat/gone.png", 4);
    const auto run = open_pictures({.data_directory = host.path()}, "swav.pictures", "none");
    ASSERT_TRUE(run);
    const std::string key = pictures_key_of(**run);
    EXPECT_EQ(key.size(), pictures_key_bytes_max);
    EXPECT_TRUE(check_pictures_key("swav.pictures", key));
    EXPECT_TRUE(open_pictures({.data_directory = host.path()}, "swav.pictures", key));
    const auto refused = open_pictures({.data_directory = mine.path()}, "swav.pictures", key);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind(), ErrorKind::conflict);
    for (const char* sentence : {"cat/7.png has another content or caption there",
                                 "cat/new.png is not among the run's",
                                 "a picture of cat/ is missing here",
                                 "the run's 51 have "})
        EXPECT_NE(refused.error().message().find(sentence), std::string::npos)
            << refused.error().message();
    EXPECT_FALSE(check_pictures_key("swav.pictures", key + "x"));
    EXPECT_FALSE(check_pictures_key("swav.pictures", key.substr(0, 100)));
}

TEST(PictureFolder, with_captions_in_another_order_is_told_so) {
    const TemporaryFolder host;
    const TemporaryFolder mine;
    const std::string one = "{\"file\": \"1.png\", \"caption\": \"a hat\"}\n";
    const std::string two = "{\"file\": \"2.png\", \"caption\": \"a cat\"}\n";
    for (const TemporaryFolder* folder : {&host, &mine})
        for (const char* name : {"1.png", "2.png"}) add_picture(*folder, name, 1);
    host.write("captions.jsonl", as_bytes(one + two));
    mine.write("captions.jsonl", as_bytes(two + one));
    const auto run = open_pictures({.data_directory = host.path()}, "swav.pictures", "none");
    ASSERT_TRUE(run);
    const auto refused =
        open_pictures({.data_directory = mine.path()}, "swav.pictures", pictures_key_of(**run));
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("they are the same, in another order"),
              std::string::npos)
        << refused.error().message();
}

TEST(PictureFolder, says_what_is_missing) {
    const auto none = open_pictures({}, "swav.pictures", undecided_pictures);
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().message().find("--data"), std::string::npos);
    EXPECT_FALSE(open_pictures({.data_directory = "/nowhere"}, "swav.pictures", any_pictures));
    const TemporaryFolder empty;
    const auto without =
        open_pictures({.data_directory = empty.path()}, "swav.pictures", any_pictures);
    ASSERT_FALSE(without);
    EXPECT_NE(without.error().message().find("no pictures"), std::string::npos);
    const auto key = check_pictures_key("swav.pictures", "mine");
    ASSERT_FALSE(key);
    EXPECT_NE(key.error().message().find("swav.pictures: 'mine'"), std::string::npos);
}

}  // namespace
}  // namespace dedloc::tasks
