#include "dedloc/security/identity_file.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "dedloc/base/log_sink.h"

namespace dedloc::security {
namespace {

class IdentityFile : public ::testing::Test {
  protected:
    void SetUp() override {
        char name[] = "/tmp/dedloc-identity-XXXXXX";
        ASSERT_NE(mkdtemp(name), nullptr);
        directory_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }
    std::string directory_;
};

TEST_F(IdentityFile, is_made_once_and_found_again) {
    const std::string folder = directory_ + "/new/peer";
    PeerId first;
    {
        const auto made = load_or_create_identity(folder);
        ASSERT_TRUE(made) << made.error().message();
        first = made->identity().id();
    }
    const auto again = load_or_create_identity(folder);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->identity().id(), first);
    const auto permissions = std::filesystem::status(folder + "/identity.key").permissions();
    EXPECT_EQ(permissions & std::filesystem::perms(0777), std::filesystem::perms(0600));
}

TEST_F(IdentityFile, that_others_could_read_is_made_private_and_that_is_said) {
    const std::string key = directory_ + "/identity.key";
    { ASSERT_TRUE(load_or_create_identity(directory_)); }
    std::filesystem::permissions(key, std::filesystem::perms(0644));
    std::string said;
    base::give_log_lines_to([&said](const std::string& line) { said += line; });
    { ASSERT_TRUE(load_or_create_identity(directory_)); }
    base::give_log_lines_to(nullptr);
    const auto permissions = std::filesystem::status(key).permissions();
    EXPECT_EQ(permissions & std::filesystem::perms(0777), std::filesystem::perms(0600));
    EXPECT_NE(said.find("mode 644"), std::string::npos) << said;
}

TEST_F(IdentityFile, belongs_to_one_process_at_a_time) {
    const auto mine = load_or_create_identity(directory_);
    ASSERT_TRUE(mine);
    const auto other = load_or_create_identity(directory_);
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().kind(), ErrorKind::conflict);
    EXPECT_NE(other.error().message().find(directory_ + "/identity.lock"), std::string::npos);
    EXPECT_NE(other.error().message().find("directory of its own"), std::string::npos);
}

TEST_F(IdentityFile, that_is_no_key_is_named_and_left_alone) {
    std::ofstream(directory_ + "/identity.key") << "not a key";
    const auto refused = load_or_create_identity(directory_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind(), ErrorKind::bad_input);
    EXPECT_NE(refused.error().message().find("identity.key"), std::string::npos);
    std::ifstream file(directory_ + "/identity.key");
    std::string text;
    std::getline(file, text);
    EXPECT_EQ(text, "not a key");
}

TEST_F(IdentityFile, in_a_place_that_cannot_be_written_is_explained) {
    std::ofstream(directory_ + "/file") << "x";
    const auto refused = load_or_create_identity(directory_ + "/file/inside");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind(), ErrorKind::local_fault);
}

}  // namespace
}  // namespace dedloc::security
