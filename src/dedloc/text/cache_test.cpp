#include "dedloc/text/cache.h"

#include <chrono>
#include <filesystem>
#include <future>
#include <gtest/gtest.h>
#include <thread>

#include "dedloc/base/log_sink.h"
#include "dedloc/text/text_testing.h"

namespace dedloc::text {
namespace {

TEST(ScratchFolder, removes_what_killed_processes_left_and_nothing_else) {
    const Folder folder;
    folder.write("scratch-AbCdEf/text", "left by somebody who was killed");
    folder.write("scratch-of-mine/text", "no scratch folder's name");
    folder.write("tokenizer-1.model", "kept");
    const auto first = ScratchFolder::make(folder.path());
    ASSERT_TRUE(first) << to_string(first.error());
    ASSERT_TRUE(write_file(first->file("text"), "in use"));
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/scratch-AbCdEf"));
    std::string path;
    {
        const auto second = ScratchFolder::make(folder.path());
        ASSERT_TRUE(second);
        path = second->file("");
        EXPECT_TRUE(std::filesystem::exists(path));
    }
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_TRUE(std::filesystem::exists(first->file("text")));
    EXPECT_TRUE(std::filesystem::exists(folder.path() + "/scratch-of-mine/text"));
    EXPECT_TRUE(std::filesystem::exists(folder.path() + "/tokenizer-1.model"));
}

TEST(AloneWith, says_that_it_waits) {
    const Folder folder;
    const std::string path = folder.path() + "/thing";
    std::promise<void> said;
    std::promise<void> inside;
    base::give_log_lines_to([&](const std::string& line) {
        if (line.find("waiting for another process that makes " + path) != std::string::npos)
            said.set_value();
    });
    std::thread other([&] {
        EXPECT_TRUE(alone_with(path, [&]() -> Ok {
            inside.set_value();
            auto line = said.get_future();  // of the one below
            EXPECT_EQ(line.wait_for(std::chrono::seconds(20)), std::future_status::ready);
            return {};
        }));
    });
    inside.get_future().wait();
    EXPECT_TRUE(alone_with(path, []() -> Ok { return {}; }));
    other.join();
    base::give_log_lines_to(nullptr);
}

TEST(AloneWith, says_why_there_is_no_folder) {
    const Folder folder;
    folder.write("file", "");
    const Ok made = alone_with(folder.path() + "/file/cache/thing", []() -> Ok { return {}; });
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message(),
              "cannot make the folder " + folder.path() + "/file/cache: Not a directory");
}

}  // namespace
}  // namespace dedloc::text
