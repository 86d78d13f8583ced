#include "dedloc/folders/walk.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace dedloc::folders {
namespace {

namespace fs = std::filesystem;

class Tree {
  public:
    Tree() {
        std::string name = (fs::temp_directory_path() / "dedloc_walk_XXXXXX").string();
        root_ = mkdtemp(name.data());
    }
    ~Tree() {
        std::error_code ignored;
        fs::remove_all(root_, ignored);
    }
    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;

    fs::path at(const std::string& name) const { return root_ / name; }
    std::string path() const { return root_.string(); }
    void add(const std::string& name) const {
        fs::create_directories(at(name).parent_path());
        std::ofstream(at(name)) << "x";
    }

  private:
    fs::path root_;
};

ListOptions all_texts() {
    return {.wanted = [](std::string_view name) { return lower_extension(name) == ".txt"; }};
}

struct Listed {
    std::vector<std::string> files;
    std::string said;
};

Listed list(const Tree& tree, const ListOptions& options = all_texts()) {
    testing::internal::CaptureStderr();
    auto files = list_files(tree.path(), options);
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(files);
    return {files ? *std::move(files) : std::vector<std::string>(), std::move(said)};
}

TEST(ListFiles, sorts_what_is_wanted_by_its_bytes) {
    const Tree tree;
    for (const char* name : {"b.txt", "a/z.TXT", "a-b/1.txt", "B.txt", "a/no.png", "deep/er/1.txt"})
        tree.add(name);
    EXPECT_EQ(
        list(tree).files,
        (std::vector<std::string>{"B.txt", "a-b/1.txt", "a/z.TXT", "b.txt", "deep/er/1.txt"}));
}

TEST(ListFiles, looks_at_nothing_hidden_and_nothing_that_systems_keep) {
    const Tree tree;
    tree.add("a.txt");
    for (const char* name : {".x.txt",
                             ".ipynb_checkpoints/a.txt",
                             "b/.x/y/a.txt",
                             "lost+found/#12/a.txt",
                             "b/@eaDir/a.txt",
                             "__MACOSX/a.txt"})
        tree.add(name);
    const Listed listed = list(tree);
    EXPECT_EQ(listed.files, std::vector<std::string>{"a.txt"});
    EXPECT_EQ(listed.said, "");
}

TEST(ListFiles, leaves_out_with_a_word_what_it_cannot_follow) {
    const Tree tree;
    tree.add("a.txt");
    tree.add("locked/a.txt");
    fs::create_directory_symlink(tree.path(), tree.at("round"));
    fs::create_symlink("/nowhere/b.txt", tree.at("gone.txt"));
    fs::create_symlink(tree.at("a.txt"), tree.at("link.txt"));
    fs::permissions(tree.at("locked"), fs::perms::none);
    const Listed listed = list(tree);
    fs::permissions(tree.at("locked"), fs::perms::all);
    EXPECT_NE(listed.said.find("/round is left out: it is a link to a folder; put the"),
              std::string::npos)
        << listed.said;
    EXPECT_NE(listed.said.find("/gone.txt is left out: it is a link to a file that is not there"),
              std::string::npos)
        << listed.said;
    if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
    EXPECT_NE(listed.said.find("/locked is left out: Permission denied"), std::string::npos)
        << listed.said;
    EXPECT_EQ(listed.files, (std::vector<std::string>{"a.txt", "link.txt"}));
}

TEST(ListFiles, follows_links_of_the_folder_itself_where_they_may_be_classes) {
    const Tree tree;
    const Tree elsewhere;
    elsewhere.add("deep/1.txt");
    fs::create_directory_symlink(elsewhere.path(), elsewhere.at("deep/again"));
    fs::create_directory_symlink(elsewhere.path(), tree.at("class"));
    fs::create_directory_symlink(tree.path(), tree.at("back"));
    ListOptions options = all_texts();
    options.follow_links_of_root = true;
    const Listed listed = list(tree, options);
    EXPECT_EQ(listed.files, std::vector<std::string>{"class/deep/1.txt"});
    EXPECT_NE(listed.said.find("/back is left out: it is a link that leads back here"),
              std::string::npos)
        << listed.said;
}

TEST(ListFiles, ends_with_a_sentence_at_its_limit_and_without_a_folder) {
    const Tree tree;
    for (const char* name : {"1.txt", "a/2.txt", "3.txt"}) tree.add(name);
    ListOptions options = all_texts();
    options.files_max = 2;
    const auto refused = list_files(tree.path(), options);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("more than 2 files in "), std::string::npos);
    const auto missing = list_files(tree.path() + "/nowhere", all_texts());
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().kind(), ErrorKind::local_fault);
}

}  // namespace
}  // namespace dedloc::folders
