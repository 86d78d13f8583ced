#include "dedloc/peer/prompts.h"

#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "dedloc/run/run_file.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/templates/run_templates.h"

namespace dedloc::cli {
namespace {

std::string prompts_file(const std::string& content) {
    const std::string path = fmt::format("{}dedloc-prompts-{}.txt", testing::TempDir(), ::getpid());
    std::ofstream(path) << content;
    return path;
}

TEST(Prompts, are_the_lines_of_a_file_but_for_empty_ones_and_comments) {
    const auto prompts =
        peer::prompts_of_file(prompts_file("a red hat\r\n\n# no\n  \nwaving: dark\n"));
    ASSERT_TRUE(prompts) << to_string(prompts.error());
    EXPECT_EQ(*prompts, (std::vector<std::string>{"a red hat", "waving: dark"}));
    EXPECT_FALSE(peer::prompts_of_file(prompts_file("# nothing\n")));
    EXPECT_FALSE(peer::prompts_of_file(prompts_file("")));
    EXPECT_FALSE(peer::prompts_of_file(prompts_file(std::string(peer::prompt_bytes_max + 1, 'a'))));
    EXPECT_FALSE(peer::prompts_of_file("/nowhere/prompts.txt"));
    EXPECT_FALSE(peer::check_prompts(std::vector<std::string>(peer::prompts_max + 1, "a")));
}

// The user's own command decides, unless the drawing failed.
TEST(Prompts, are_drawn_before_the_users_own_command_runs) {
    const std::string command = peer::sheet_command("/a/it's.txt", "/b/peer", false, "echo $1");
    EXPECT_NE(command.find("sample \"$1\" --prompts '/a/it'\\''s.txt'"), std::string::npos)
        << command;
    EXPECT_LT(command.find("'/b/peer/prompts'"), command.find("echo $1"));
    const std::string texts = peer::sheet_command("/a/p.txt", "/b/peer", true, "");
    EXPECT_NE(texts.find("--n 1 "), std::string::npos);
    EXPECT_NE(texts.find("latest.txt"), std::string::npos);
    EXPECT_EQ(peer::sheet_command("/a/p.txt", "/b/peer", false, "").find("code="),
              std::string::npos);
}

TEST(RunTemplates, of_other_sizes_are_valid_run_files) {
    for (const std::string& task : tasks::task_kinds())
        for (const auto& [size, settings] : tasks::find_task(task)->run_template.sizes) {
            const auto text = templates::run_template(task, size);
            ASSERT_TRUE(text) << task << size;
            const auto run = run::parse_run_file(*text, task);
            EXPECT_TRUE(run) << to_string(run.error());
        }
    const auto none = templates::run_template("text_to_image", "giant");
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().message().find("published"), std::string::npos);
}

}  // namespace
}  // namespace dedloc::cli
