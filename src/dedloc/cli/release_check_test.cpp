#include "dedloc/cli/release_check.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace dedloc::cli {
namespace {

class ReleaseCheck : public testing::Test {
  protected:
    ReleaseCheck() {
        std::string pattern = testing::TempDir() + "dedloc-release-XXXXXX";
        folder_ = mkdtemp(pattern.data());
        write("dedloc.whl", "abc");
        // FIPS 180-4 has the hash of "abc".
        write(checksums_file,
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  dedloc.whl\n");
    }
    ~ReleaseCheck() override { std::filesystem::remove_all(folder_); }

    std::string file(const std::string& name) const { return folder_ + "/" + name; }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(file(name)) << text;
    }

    std::string folder_;
};

TEST_F(ReleaseCheck, takes_a_file_with_the_bytes_that_the_checksums_tell) {
    const Ok whole = check_release_file(file("dedloc.whl"));
    EXPECT_TRUE(whole) << whole.error().message();
}

TEST_F(ReleaseCheck, says_what_is_wrong_with_another) {
    write("dedloc.whl", "abd");
    const Ok changed = check_release_file(file("dedloc.whl"));
    ASSERT_FALSE(changed);
    EXPECT_EQ(changed.error().kind(), ErrorKind::conflict);
    write("edloc.whl", "abc");
    const Ok unknown = check_release_file(file("edloc.whl"));
    ASSERT_FALSE(unknown);
    EXPECT_NE(unknown.error().message().find("says nothing of edloc.whl"), std::string::npos);
    EXPECT_FALSE(check_release_file(file("missing")));
    std::filesystem::remove(file(checksums_file));
    EXPECT_FALSE(check_release_file(file("dedloc.whl")));
}

}  // namespace
}  // namespace dedloc::cli
