#include "dedloc/peer/copied_folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace dedloc::peer {
namespace {

namespace fs = std::filesystem;

TEST(CopiedFolder, a_copy_is_told_from_a_folder_that_was_moved) {
    std::string pattern = testing::TempDir() + "dedloc-copied-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    const fs::path root = pattern;
    const auto at = [&](const char* name) { return (root / name).string(); };
    fs::create_directory(root / "first");
    std::ofstream(root / "first" / "identity.key") << "a key";
    EXPECT_TRUE(may_be_copied(at("first"))) << "nothing was noted";
    note_place(at("first"));
    EXPECT_FALSE(may_be_copied(at("first")));
    fs::copy(root / "first", root / "copy");
    EXPECT_TRUE(may_be_copied(at("copy")));
    fs::rename(root / "first", root / "moved");
    EXPECT_FALSE(may_be_copied(at("moved")));
    note_place(at("copy"));
    EXPECT_FALSE(may_be_copied(at("copy"))) << "it is told once";
    note_place(at("nowhere"));
    EXPECT_FALSE(fs::exists(root / "nowhere"));
    fs::remove_all(root);
}

}  // namespace
}  // namespace dedloc::peer
