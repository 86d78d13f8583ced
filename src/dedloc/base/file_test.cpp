#include "dedloc/base/file.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace dedloc::base {
namespace {

class File : public testing::Test {
  protected:
    File() { std::filesystem::create_directories(folder_); }
    ~File() override { std::filesystem::remove_all(folder_); }
    std::string with(std::string_view content) const {
        const std::string path = folder_ + "/file";
        std::ofstream(path, std::ios::binary) << content;
        return path;
    }

    std::string folder_ = fmt::format("{}/dedloc-file-{}", testing::TempDir(), ::getpid());
};

TEST_F(File, is_read_whole) {
    const std::string content = std::string("a\0b\n", 4) + std::string(3u << 20, 'x');
    EXPECT_EQ(read_file(with(content), 4u << 20).value(), content);
    EXPECT_EQ(read_file(with(""), 10).value(), "");
}

TEST_F(File, may_have_as_many_bytes_as_are_allowed_and_no_more) {
    EXPECT_EQ(read_file(with("12345"), 5).value(), "12345");
    const auto larger = read_file(with("123456"), 5);
    ASSERT_FALSE(larger);
    EXPECT_EQ(larger.error().kind(), ErrorKind::bad_input);
}

TEST_F(File, that_is_none_is_named) {
    EXPECT_EQ(read_file(folder_, 5).error().kind(), ErrorKind::bad_input);
    const auto missing = read_file(folder_ + "/nothing", 5);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().kind(), ErrorKind::not_found);
    EXPECT_NE(missing.error().message().find("/nothing: No such file"), std::string::npos);
}

// The first page of a process is mapped nowhere: reading it fails as a bad disk does.
TEST_F(File, that_cannot_be_read_to_its_end_is_no_content) {
    const auto broken = read_file("/proc/self/mem", 5);
    ASSERT_FALSE(broken);
    EXPECT_EQ(broken.error().kind(), ErrorKind::local_fault);
}

}  // namespace
}  // namespace dedloc::base
