#include <gtest/gtest.h>

#include "dedloc/base/bytes.h"
#include "dedloc/base/columns.h"
#include "dedloc/base/edit_distance.h"
#include "dedloc/base/log.h"
#include "dedloc/base/log_sink.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/base/printable.h"
#include "dedloc/base/random.h"
#include "dedloc/base/result.h"

namespace dedloc::base {
namespace {

Result<int> half(int value) {
    if (value % 2 != 0) return make_error(ErrorKind::bad_input, "{} is odd", value);
    return value / 2;
}

Result<int> quarter(int value) {
    DEDLOC_TRY(const int first, half(value));
    DEDLOC_TRY(const int second, half(first));
    return second;
}

TEST(Result, try_returns_the_first_error) {
    EXPECT_EQ(*quarter(8), 2);
    EXPECT_EQ(quarter(6).error().message(), "3 is odd");
    EXPECT_EQ(to_string(quarter(6).error()), "bad input: 3 is odd");
}

TEST(ResultDeathTest, reading_the_value_of_an_error_is_our_bug) {
    EXPECT_DEATH((void)half(3).value(), "internal error");
}

TEST(Bytes, hex_and_base64url_return_what_went_in) {
    Random random(7);
    for (std::size_t size = 0; size < 70; ++size) {
        const Bytes bytes = random.bytes(size);
        EXPECT_EQ(*from_hex(to_hex(bytes)), bytes);
        EXPECT_EQ(*from_base64url(to_base64url(bytes)), bytes);
        EXPECT_EQ(*from_base58(to_base58(bytes)), bytes);
    }
}

TEST(Bytes, bad_text_is_refused) {
    EXPECT_FALSE(from_hex("abc"));
    EXPECT_FALSE(from_hex("zz"));
    EXPECT_FALSE(from_base64url("a"));
    EXPECT_FALSE(from_base64url("a+"));
    EXPECT_FALSE(from_base58("0OIl"));
}

TEST(Log, lines_go_to_who_takes_them_and_then_to_standard_error_again) {
    std::vector<std::string> taken;
    give_log_lines_to([&](std::string line) { taken.push_back(std::move(line)); });
    testing::internal::CaptureStderr();
    log(LogLevel::warning, "room", "{} left", 1);
    give_log_lines_to({});
    log(LogLevel::warning, "room", "{} left", 2);
    const std::string said = testing::internal::GetCapturedStderr();
    ASSERT_EQ(taken.size(), 1u);
    EXPECT_TRUE(taken[0].ends_with("W room: 1 left")) << taken[0];
    EXPECT_EQ(said.find("1 left"), std::string::npos);
    EXPECT_TRUE(said.ends_with("W room: 2 left\n")) << said;
}

TEST(Log, lines_hold_nothing_that_a_terminal_obeys) {
    std::string taken;
    give_log_lines_to([&](std::string line) { taken = std::move(line); });
    log(LogLevel::warning,
        "room",
        "{}",
        "a\x1b[2J\xc2\x9b"
        "31m\nb");
    give_log_lines_to({});
    EXPECT_TRUE(taken.ends_with("W room: a?[2J?31m\nb")) << taken;
}

TEST(Printable, what_a_terminal_obeys_is_not_shown_and_letters_stay) {
    EXPECT_EQ(printable("a\x1b[2Jb\r\n\tc\x7f"), "a?[2Jb   c?");
    EXPECT_EQ(printable("a\xc2\x9b"
                        "31mb\xc2\x80\xc2\x9f"),
              "a?31mb??");
    EXPECT_EQ(printable("\xe2\x80\xae"
                        "evil\xe2\x81\xa6\xd8\x9c\xe2\x80\xa8"),
              "?evil???");
    const std::string letters =
        "J\xc3\xbcrgen \xe2\x80\xa6 \xe2\x86\x92 \xf0\x9f\x98\x80";  // ü … → 😀
    EXPECT_EQ(printable(letters), letters);
    EXPECT_TRUE(is_printable(letters));
    EXPECT_FALSE(is_printable("a\xc2\x9b"));
}

TEST(Printable, each_byte_that_is_no_utf8_is_marked) {
    EXPECT_EQ(printable("\xff\xfe\xc3"), "???");
    EXPECT_EQ(printable("\xe2\x80x"), "??x");
    EXPECT_EQ(printable("\xc0\x9b\xe0\x82\x9b"), "?????");            // C1 in longer forms
    EXPECT_EQ(printable("\xed\xa0\x80\xf4\x90\x80\x80"), "???????");  // no letters of Unicode
}

TEST(Printable, text_is_cut_at_a_letter) {
    EXPECT_EQ(printable("abcdef", 3), "abc");
    EXPECT_EQ(printable("ab\xc3\xbc", 3), "ab");
    EXPECT_EQ(printable("ab\xc3\xbc", 4), "ab\xc3\xbc");
}

TEST(Printable, lines_stay_lines_where_they_are_wanted) {
    EXPECT_EQ(printable_lines("a\n  b\x1b\rc\n"), "a\n  b? c\n");
}

TEST(Printable, in_tables_letters_of_all_scripts_stay) {
    for (const std::string name : {"J\u00fcrgen",
                                   "\u0391\u03b3\u03b3\u03b5\u03bb\u03bf\u03c2",
                                   "\u0623\u0645\u0644",
                                   "\u05e0\u05d5\u05e2\u05d4",
                                   "\u0905\u0902\u0915\u093f\u0924",
                                   "\u09b0\u09be\u09b9\u09c1\u09b2",
                                   "\u0e2a\u0e21\u0e0a\u0e32\u0e22",
                                   "\u5f20\u4f1f",
                                   "\uae40\ubbfc\uc900",
                                   "\u305f\u308d\u3046",
                                   "e\u0301",
                                   "\U0001f98a"})
        EXPECT_EQ(printable_columns(name, 100), name);
    EXPECT_EQ(printable_columns("Zo\u00eb\n\u00a0x", 100), "Zo\u00eb  x");
}

TEST(Printable, in_tables_nothing_moves_what_stands_beside_it) {
    EXPECT_EQ(printable_columns("a\u202eb\u009b31m\ue000", 100), "a?b?31m?");
    EXPECT_EQ(printable_columns("\u0301a\u00adb\u200bc\ufe0fd", 100), "abcd");
    std::string stack = "a";
    for (int i = 0; i < 20; ++i) stack += "\u0301";
    EXPECT_EQ(printable_columns(stack + "b", 100), "a\u0301\u0301\u0301\u0301b");
    // A joiner between two pictures makes them one on some terminals only.
    EXPECT_EQ(printable_columns("\U0001f468\u200d\U0001f469", 100), "\U0001f468\U0001f469");
    EXPECT_EQ(printable_columns("\u0915\u094d\u200d\u0937", 100), "\u0915\u094d\u200d\u0937");
    EXPECT_EQ(printable_columns("ab\u5f20", 4), "ab");
}

TEST(Columns, wide_letters_take_two_and_marks_none) {
    EXPECT_EQ(columns("J\u00fcrgen"), 6u);
    EXPECT_EQ(columns("\u5f20\u4f1f"), 4u);
    EXPECT_EQ(columns("e\u0301"), 1u);
    EXPECT_EQ(columns("\u0e2a\u0e21\u0e0a\u0e32\u0e22"), 5u);
    EXPECT_EQ(columns("\u0e17\u0e35\u0e48"), 1u);
    EXPECT_EQ(columns("\U0001f98a"), 2u);
    EXPECT_EQ(columns("\u2588\u2591\u2581"), 3u);  // of our own bars
}

TEST(Columns, text_is_cut_and_filled_to_a_width) {
    EXPECT_EQ(cut_to_columns("abcdef", 6), "abcdef");
    EXPECT_EQ(cut_to_columns("abcdef", 5), "abcd~");
    EXPECT_EQ(cut_to_columns("\u5f20\u4f1f\u5f3a", 4), "\u5f20~");
    EXPECT_EQ(cut_to_columns("ae\u0301bc", 3), "ae\u0301~");
    EXPECT_EQ(cut_to_columns("abc", 0), "");
    EXPECT_EQ(left_in("\u5f20\u4f1f", 6), "\u5f20\u4f1f  ");
    EXPECT_EQ(right_in("e\u0301", 3), "  e\u0301");
    for (std::size_t width = 0; width < 9; ++width)
        EXPECT_EQ(columns(left_in("a\u5f20e\u0301\u4f1fb", width)), width);
}

TEST(ByteReader, a_read_past_the_end_is_an_error_and_moves_nothing) {
    const Bytes bytes = {1, 2, 3};
    ByteReader reader(bytes);
    EXPECT_EQ(*reader.u16_be(), 0x0102);
    EXPECT_FALSE(reader.u16_be());
    EXPECT_EQ(*reader.u8(), 3);
    EXPECT_TRUE(reader.done());
}

TEST(PeerId, text_forms_name_the_same_peer) {
    // Vector of specs/peer-ids.
    const auto id = PeerId::from_text("12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA");
    ASSERT_TRUE(id);
    EXPECT_EQ(id->text(), "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA");
    EXPECT_EQ(*PeerId::from_bytes(id->bytes()), *id);
    EXPECT_EQ(id->short_text(), "AJU5SA");
}

TEST(PeerId, other_multihashes_are_refused) {
    EXPECT_FALSE(PeerId::from_text("hello"));
    EXPECT_FALSE(PeerId::from_bytes(Bytes(34, 0x11)));
    EXPECT_FALSE(PeerId::from_bytes(Bytes{}));
}

TEST(Random, the_same_seed_gives_the_same_stream) {
    Random a(42);
    Random b(42);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(a.next(), b.next());
    EXPECT_EQ(Random(1).fork("x").next(), Random(1).fork("x").next());
    EXPECT_NE(Random(1).fork("x").next(), Random(1).fork("y").next());
}

TEST(Random, below_stays_below_and_reaches_every_value) {
    Random random(3);
    std::array<int, 7> seen{};
    for (int i = 0; i < 1000; ++i) ++seen[random.below(7)];
    for (const int count : seen) EXPECT_GT(count, 80);
}

TEST(EditDistance, counts_letters_that_are_changed_put_in_or_taken_out) {
    EXPECT_EQ(edit_distance("join", "join"), 0u);
    EXPECT_EQ(edit_distance("joni", "join"), 2u);
    EXPECT_EQ(edit_distance("hots", "host"), 2u);
    EXPECT_EQ(edit_distance("", "eval"), 4u);
    EXPECT_EQ(edit_distance("plan", ""), 4u);
    EXPECT_EQ(edit_distance("target", "tarjet"), 1u);
}

}  // namespace
}  // namespace dedloc::base
