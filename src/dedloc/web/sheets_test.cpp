#include "dedloc/web/sheets.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace dedloc::web {
namespace {

class SheetsTest : public ::testing::Test {
  protected:
    SheetsTest() {
        std::string pattern = ::testing::TempDir() + "dedloc-sheets-XXXXXX";
        folder_ = ::mkdtemp(pattern.data());
    }
    ~SheetsTest() override { std::filesystem::remove_all(folder_); }
    void write(const std::string& name, const std::string& text = "x") const {
        std::ofstream(folder_ + "/" + name) << text;
    }
    std::string folder_;
};

TEST_F(SheetsTest, the_newest_of_each_kind_are_found_in_order) {
    for (int step = 10; step <= 200; step += 10) write(fmt::format("step-{}.txt", step));
    for (const char* name : {"step-7.png",
                             "step-100.png",
                             "latest.png",
                             "step-.png",
                             "step-1a.png",
                             "step--3.png",
                             "step-5.png.new",
                             "100.png"})
        write(name);
    const Sheets sheets = sheets_in(folder_);
    EXPECT_EQ(sheets.pictures, (std::vector<std::uint64_t>{7, 100}));
    ASSERT_EQ(sheets.texts.size(), sheets_shown_max);
    EXPECT_EQ(sheets.texts.front(), 90u);
    EXPECT_EQ(sheets.texts.back(), 200u);
    EXPECT_TRUE(sheets_in(folder_ + "/none").empty());
    EXPECT_EQ(sheets.until(100).texts, (std::vector<std::uint64_t>{90, 100}));
    EXPECT_EQ(sheets.until(99).pictures, (std::vector<std::uint64_t>{7}));
    EXPECT_TRUE(sheets.until(6).empty());
}

TEST_F(SheetsTest, only_sheets_are_read) {
    write("step-20.txt", "Once upon a time");
    write("step-30.png", "PNG");
    write("secret.txt");
    const auto text = read_sheet(folder_, "20.txt");
    ASSERT_TRUE(text);
    EXPECT_EQ(text->bytes, "Once upon a time");
    EXPECT_EQ(text->content_type, "text/plain; charset=utf-8");
    EXPECT_EQ(read_sheet(folder_, "30.png")->content_type, "image/png");
    for (const char* name : {"20.png",
                             "30.txt",
                             "secret.txt",
                             "../x/20.txt",
                             "20",
                             ".txt",
                             "",
                             "20.txt.txt",
                             "-20.txt"})
        EXPECT_FALSE(read_sheet(folder_, name)) << name;
    EXPECT_FALSE(read_sheet("", "20.txt"));
}

}  // namespace
}  // namespace dedloc::web
