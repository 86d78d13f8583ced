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
