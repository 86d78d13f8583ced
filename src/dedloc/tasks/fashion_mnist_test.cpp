#include "dedloc/tasks/fashion_mnist.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "dedloc/base/bytes.h"

namespace dedloc::tasks {
namespace {

class IdxTest : public testing::Test {
  protected:
    IdxTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "dedloc-XXXXXX").string();
        directory_ = ::mkdtemp(pattern.data());
        for (const std::uint32_t word : {2051u, 3u, 28u, 28u}) base::put_u32_be(images_, word);
        images_.resize(images_.size() + 3 * image_pixels, 17);
        for (const std::uint32_t word : {2049u, 3u}) base::put_u32_be(labels_, word);
        for (const int label : {0, 9, 4}) labels_.push_back(static_cast<std::uint8_t>(label));
    }
    ~IdxTest() override { std::filesystem::remove_all(directory_); }

    Result<LabelledImages> load() {
        write("images", images_);
        write("labels", labels_);
        return load_idx(directory_ / "images", directory_ / "labels");
    }
    void write(const std::string& name, const Bytes& bytes) {
        std::ofstream file(directory_ / name, std::ios::binary);
        file.write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
    }
    void expect_refused(const std::string& word) {
        const Result<LabelledImages> loaded = load();
        ASSERT_FALSE(loaded);
        EXPECT_EQ(loaded.error().kind(), ErrorKind::bad_input);
        EXPECT_NE(loaded.error().message().find(word), std::string::npos)
            << loaded.error().message();
    }

    std::filesystem::path directory_;
    Bytes images_;
    Bytes labels_;
};

TEST_F(IdxTest, reads_images_and_labels) {
    const Result<LabelledImages> loaded = load();
    ASSERT_TRUE(loaded) << to_string(loaded.error());
    EXPECT_EQ(loaded->count, 3u);
    EXPECT_EQ(loaded->pixels, std::vector<std::uint8_t>(3 * image_pixels, 17));
    EXPECT_EQ(loaded->labels, (std::vector<std::uint8_t>{0, 9, 4}));
}

TEST_F(IdxTest, refuses_a_foreign_magic) {
    images_[3] = 0x01;
    expect_refused("magic");
}

TEST_F(IdxTest, refuses_images_of_another_size) {
    images_[11] = 27;
    expect_refused("27");
}

TEST_F(IdxTest, refuses_counts_that_differ) {
    labels_[7] = 2;
    expect_refused("2 labels for 3 images");
}

TEST_F(IdxTest, refuses_to_allocate_for_an_absurd_count) {
    images_[4] = 0xff;
    expect_refused("claims");
}

TEST_F(IdxTest, refuses_a_file_that_ends_early) {
    images_.pop_back();
    expect_refused("1 bytes early");
}

TEST_F(IdxTest, refuses_a_file_that_goes_on) {
    labels_.push_back(1);
    expect_refused("more bytes");
}

TEST_F(IdxTest, refuses_a_label_beyond_the_classes) {
    labels_.back() = 10;
    expect_refused("label 10");
}

TEST_F(IdxTest, refuses_damaged_compression) {
    images_ = {0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 3, 0xde, 0xad, 0xbe, 0xef, 0xff, 0xff};
    expect_refused("compression");
}

TEST(FashionMnist, says_which_package_brings_missing_data) {
    const Result<FashionMnist> loaded = load_fashion_mnist("/nonexistent");
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().kind(), ErrorKind::not_found);
    EXPECT_NE(loaded.error().message().find("apt-get install dataset-fashion-mnist"),
              std::string::npos);
}

TEST(FashionMnist, has_ten_balanced_classes_where_it_is_installed) {
    if (!std::filesystem::exists(fashion_mnist_directory)) {
        GTEST_SKIP() << "wants the Debian package dataset-fashion-mnist";
    }
    const Result<FashionMnist> loaded = load_fashion_mnist(fashion_mnist_directory);
    ASSERT_TRUE(loaded) << to_string(loaded.error());
    EXPECT_EQ(loaded->train.count, 60'000u);
    EXPECT_EQ(loaded->test.count, 10'000u);
    std::array<int, classes_count> counts{};
    for (const std::uint8_t label : loaded->train.labels) ++counts[label];
    for (const int count : counts) EXPECT_EQ(count, 6000);
}

}  // namespace
}  // namespace dedloc::tasks
