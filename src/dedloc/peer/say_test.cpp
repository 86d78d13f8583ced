#include "dedloc/peer/say.h"

#include <gtest/gtest.h>
#include <memory>

namespace dedloc::peer {
namespace {

TEST(Say, what_cannot_be_written_ends_nobody) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> full(std::fopen("/dev/full", "w"),
                                                               std::fclose);
    ASSERT_NE(full, nullptr);
    const std::string more_than_a_buffer(100'000, 'x');
    for (int i = 0; i < 3; ++i) {
        EXPECT_NO_THROW(say(full.get(), "{}\n", i));
        EXPECT_NO_THROW(say(full.get(), "{}\n", more_than_a_buffer));
    }
    EXPECT_EQ(output_error(), 0) << "that was not standard output";
}

}  // namespace
}  // namespace dedloc::peer
