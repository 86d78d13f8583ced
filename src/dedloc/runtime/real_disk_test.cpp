// Files in a temporary directory.

#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <future>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dedloc/runtime/real.h"

namespace dedloc::runtime {
namespace {

struct TemporaryFolder {
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "dedloc-disk-XXXXXX").string();
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        path = name;
    }
    ~TemporaryFolder() { std::filesystem::remove_all(path); }
    std::string path;
};

struct RealDiskTest : ::testing::Test {
    TemporaryFolder folder;
    std::unique_ptr<Disk> disk = *real_disk(folder.path + "/node");
};

TEST_F(RealDiskTest, what_was_written_is_read_and_listed) {
    EXPECT_TRUE(disk->write_atomically("a/b/one", as_bytes("first")));
    EXPECT_TRUE(disk->write_atomically("a/b/one", as_bytes("second")));
    EXPECT_TRUE(disk->write_atomically("a/two", as_bytes("")));
    EXPECT_EQ(as_text(*disk->read("a/b/one")), "second");
    EXPECT_EQ(*disk->list("a"), (std::vector<std::string>{"b", "two"}));
    EXPECT_EQ(*disk->list(""), (std::vector<std::string>{"a"}));
    EXPECT_TRUE(disk->remove("a"));
    EXPECT_EQ(disk->read("a/b/one").error().kind(), ErrorKind::not_found);
    EXPECT_EQ(disk->remove("a").error().kind(), ErrorKind::not_found);
}

TEST_F(RealDiskTest, what_is_written_over_longer_or_shorter_pieces_is_the_new_pieces) {
    for (const char* text : {"one", "a longer text", "", "four"}) {
        const std::string whole = text;
        const ByteView bytes = as_bytes(whole);
        const std::vector<ByteView> pieces{bytes.first(bytes.size() / 2),
                                           bytes.subspan(bytes.size() / 2)};
        EXPECT_TRUE(disk->write_over("parts/0", pieces));
        EXPECT_EQ(as_text(*disk->read("parts/0")), whole);
    }
    EXPECT_EQ(*disk->list("parts"), (std::vector<std::string>{"0"}));
}

TEST_F(RealDiskTest, appends_add_up_across_reopening_replacing_and_many_files) {
    for (int i = 0; i < 50; ++i) {
        const std::string path = fmt::format("log/{}", i % 40);
        EXPECT_TRUE(disk->append_durably(path, as_bytes("x")));
    }
    EXPECT_EQ(as_text(*disk->read("log/3")), "xx");
    disk = *real_disk(folder.path + "/node");
    EXPECT_TRUE(disk->append_durably("log/3", as_bytes("y")));
    EXPECT_EQ(as_text(*disk->read("log/3")), "xxy");
    EXPECT_TRUE(disk->write_atomically("log/3", as_bytes("new")));
    EXPECT_TRUE(disk->append_durably("log/3", as_bytes("+")));
    EXPECT_EQ(as_text(*disk->read("log/3")), "new+");
    EXPECT_TRUE(disk->remove("log"));
    EXPECT_TRUE(disk->append_durably("log/3", as_bytes("z")));
    EXPECT_EQ(as_text(*disk->read("log/3")), "z");
}

// The large file's temporary one is a pipe that nobody reads: its writer waits in the middle.
TEST_F(RealDiskTest, an_append_does_not_wait_for_a_large_write) {
    const std::string pipe = folder.path + "/node/.tmp-large";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const Bytes large(4u << 20, 7);
    auto writing =
        std::async(std::launch::async, [&] { return disk->write_atomically("large", large); });
    const int reader =
        ::open(pipe.c_str(), O_RDONLY);  // returns when the writer has opened it, too
    ASSERT_GE(reader, 0);
    auto appending = std::async(std::launch::async,
                                [&] { return disk->append_durably("votes", as_bytes("yes")); });
    EXPECT_EQ(appending.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    Bytes sink(64u << 10);
    while (::read(reader, sink.data(), sink.size()) > 0) {
    }
    ::close(reader);
    EXPECT_FALSE(writing.get()) << "a pipe cannot be synced";
    EXPECT_TRUE(appending.get());
    EXPECT_TRUE(disk->write_atomically("large", large));
    EXPECT_EQ(*disk->list(""), (std::vector<std::string>{"large", "votes"}));
}

TEST_F(RealDiskTest, paths_stay_inside_the_folder) {
    for (const char* path : {"", "/etc/passwd", "..", "a/../../b", "a//b", "./a", "a/"}) {
        EXPECT_EQ(disk->write_atomically(path, as_bytes("x")).error().kind(), ErrorKind::bad_input)
            << path;
        EXPECT_EQ(disk->read(path).error().kind(), ErrorKind::bad_input) << path;
    }
}

TEST(RealDisk, a_full_disk_is_told_in_words) {
    // /dev/full answers every write with ENOSPC.
    if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
    auto disk = real_disk("/dev");
    ASSERT_TRUE(disk);
    auto full = (*disk)->append_durably("full", as_bytes("x"));
    ASSERT_FALSE(full);
    if (full.error().message().find("not allowed") != std::string::npos)
        GTEST_SKIP() << "the user of these tests may not write to /dev/full";
    EXPECT_EQ(full.error().kind(), ErrorKind::local_fault);
    EXPECT_NE(full.error().message().find("no space left on the disk"), std::string::npos);
}

TEST(RealDisk, a_folder_that_cannot_be_made_is_an_error) {
    auto disk = real_disk("/dev/null/x");
    ASSERT_FALSE(disk);
    EXPECT_EQ(disk.error().kind(), ErrorKind::local_fault);
}

}  // namespace
}  // namespace dedloc::runtime
