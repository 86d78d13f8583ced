#include "dedloc/peer/installed_torch.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace dedloc::peer {
namespace {

namespace fs = std::filesystem;

class InstalledTorch : public testing::Test {
  protected:
    InstalledTorch() {
        std::string pattern = testing::TempDir() + "dedloc-torch-XXXXXX";
        folder_ = mkdtemp(pattern.data());
        fs::create_directories(programs());
        ::unsetenv("DEDLOC_TORCH");
    }
    ~InstalledTorch() override {
        ::unsetenv("DEDLOC_TORCH");
        fs::remove_all(folder_);
    }
    std::string programs() const { return folder_ + "/site-packages/dedloc/bin"; }
    void needs(const std::string& version) const {
        std::ofstream(programs() + "/" + trainer_torch_file) << version << "\n";
    }
    static void make_torch(const std::string& at, const std::string& version) {
        fs::create_directories(at + "/lib");
        std::ofstream(at + "/lib/libtorch_cpu.so") << "library";
        std::ofstream(at + "/version.py") << "debug = False\n__version__ = '" << version << "'\n";
    }

    std::string folder_;
};

TEST_F(InstalledTorch, a_trainer_that_has_its_own_is_left_alone) {
    const auto found = libtorch_for(programs());
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, "");
}

TEST_F(InstalledTorch, beside_the_wheel_the_trainer_finds_it_by_itself) {
    needs("2.15");
    make_torch(folder_ + "/site-packages/torch", "2.15.1+cpu");
    const auto found = libtorch_for(programs());
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(*found, "");
}

TEST_F(InstalledTorch, one_that_is_named_is_taken) {
    needs("2.15");
    make_torch(folder_ + "/elsewhere", "2.15.0");
    ::setenv("DEDLOC_TORCH", (folder_ + "/elsewhere").c_str(), 1);
    const auto found = libtorch_for(programs());
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(*found, folder_ + "/elsewhere/lib");
}

TEST_F(InstalledTorch, of_another_version_or_missing_the_sentence_says_what_to_install) {
    needs("2.1");
    make_torch(folder_ + "/site-packages/torch", "2.15.0+cpu");
    const auto newer = libtorch_for(programs());
    ASSERT_FALSE(newer);
    EXPECT_EQ(newer.error().kind(), ErrorKind::cannot_compute);
    for (const char* words : {"is 2.15.0+cpu", "pip install 'torch==2.1.*'"})
        EXPECT_NE(newer.error().message().find(words), std::string::npos)
            << newer.error().message();
    ::setenv("DEDLOC_TORCH", folder_.c_str(), 1);
    const auto none = libtorch_for(programs());
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().message().find("has no lib/libtorch_cpu.so"), std::string::npos);
}

}  // namespace
}  // namespace dedloc::peer
