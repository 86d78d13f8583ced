#include "dedloc/monitor/keys.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

namespace dedloc::monitor {
namespace {

// A terminal whose other end is the test's hand on the keyboard.
class KeysTest : public testing::Test {
  protected:
    KeysTest() : hand_(posix_openpt(O_RDWR | O_NOCTTY)) {
        if (hand_ < 0 || grantpt(hand_) != 0 || unlockpt(hand_) != 0) return;
        if (const char* name = ptsname(hand_)) terminal_ = open(name, O_RDWR | O_NOCTTY);
    }
    ~KeysTest() override {
        for (const int end : {terminal_, hand_})
            if (end >= 0) ::close(end);
    }
    void SetUp() override {
        if (terminal_ < 0) GTEST_SKIP() << "this system has no pseudo-terminals (devpts)";
    }
    void type(std::string_view keys) const {
        ASSERT_EQ(write(hand_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
    }
    tcflag_t line_modes() const {
        termios modes{};
        EXPECT_EQ(tcgetattr(terminal_, &modes), 0);
        return modes.c_lflag;
    }
    static constexpr tcflag_t edited = ICANON | ECHO;

    int hand_;
    int terminal_ = -1;
};

TEST_F(KeysTest, come_without_enter_and_are_not_shown) {
    Keys keys(terminal_);
    EXPECT_EQ(keys.take(), "");
    type("?q");
    EXPECT_EQ(keys.take(), "?q");
    EXPECT_EQ(keys.take(), "");
    EXPECT_EQ(fcntl(hand_, F_SETFL, O_NONBLOCK), 0);
    char shown = 0;
    EXPECT_EQ(read(hand_, &shown, 1), -1) << shown;
}

TEST_F(KeysTest, leave_the_terminal_as_it_was_and_ctrl_c_a_signal) {
    const tcflag_t before = line_modes();
    ASSERT_EQ(before & edited, edited);
    {
        Keys keys(terminal_);
        (void)keys.take();
        EXPECT_EQ(line_modes() & edited, 0u);
        EXPECT_NE(line_modes() & ISIG, 0u);
    }
    EXPECT_EQ(line_modes(), before);
}

TEST_F(KeysTest, a_signal_handler_can_give_the_terminal_back) {
    const tcflag_t before = line_modes();
    Keys keys(terminal_);
    (void)keys.take();
    give_terminal_back();
    EXPECT_EQ(line_modes(), before);
    (void)keys.take();
    EXPECT_EQ(line_modes() & edited, 0u);
    keys.close();
    EXPECT_EQ(line_modes(), before);
}

TEST(Keys, what_is_no_terminal_has_none) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    ASSERT_EQ(write(ends[1], "?", 1), 1);
    Keys piped(ends[0]);
    EXPECT_FALSE(piped.are_there());
    EXPECT_EQ(piped.take(), "");
    Keys none(-1);
    EXPECT_EQ(none.take(), "");
    for (const int end : ends) ::close(end);
}

}  // namespace
}  // namespace dedloc::monitor
