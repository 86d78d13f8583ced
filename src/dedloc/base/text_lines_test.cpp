#include "dedloc/base/text_lines.h"

#include <gtest/gtest.h>
#include <vector>

#include "dedloc/base/composed.h"

namespace dedloc::base {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view decomposed = "Jose\xCC\x81";
constexpr std::string_view one_letter = "Jos\xC3\xA9";

std::vector<std::string> lines_of(std::string_view file) {
    auto lines = TextLines::of(file);
    std::vector<std::string> found;
    if (!lines) return {lines.error().message()};
    while (const auto line = lines->next())
        found.push_back(fmt::format("{} {}", line->number, line->text));
    return found;
}

TEST(TextLines, are_the_same_from_every_editor_and_system) {
    const std::vector<std::string> wanted = {"1 ana", "3 bob b", "4 cid"};
    EXPECT_EQ(lines_of("ana\n\nbob b\ncid\n"), wanted);
    EXPECT_EQ(lines_of("ana\r\n\r\nbob b\r\ncid"), wanted);
    EXPECT_EQ(lines_of("ana\r\rbob b\rcid\r"), wanted);
    EXPECT_EQ(lines_of("\xEF\xBB\xBF"
                       "ana \n \t\n\tbob b\n cid"),
              wanted);
    EXPECT_EQ(lines_of(""), std::vector<std::string>{});
    EXPECT_EQ(lines_of("\xEF\xBB\xBF"), std::vector<std::string>{});
}

TEST(TextLines, that_look_alike_are_alike) {
    EXPECT_NE(decomposed, one_letter);
    EXPECT_EQ(lines_of(decomposed), lines_of(one_letter));
}

TEST(TextLines, in_another_encoding_are_refused_with_what_to_do) {
    for (const std::string_view utf16 : {"\xFF\xFE"
                                         "a\0"sv,
                                         "\xFE\xFF\0a"sv,
                                         "a\0b\0"sv,
                                         "\0a"sv}) {
        const auto lines = TextLines::of(utf16);
        ASSERT_FALSE(lines);
        EXPECT_NE(lines.error().message().find("UTF-16"), std::string::npos);
    }
    const auto latin = TextLines::of("ana\nJos\xE9\n");
    ASSERT_FALSE(latin);
    EXPECT_NE(latin.error().message().find("line 2: byte 7"), std::string::npos)
        << latin.error().message();
}

TEST(Composed, makes_one_letter_of_a_letter_and_its_marks_in_any_order) {
    EXPECT_EQ(composed(decomposed), one_letter);
    EXPECT_EQ(composed(one_letter), one_letter);
    EXPECT_EQ(composed("plain"), "plain");
    EXPECT_EQ(composed("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"), "\xED\x95\x9C");  // Hangul
    // A dot below and an accent above an "a", written either way round.
    EXPECT_EQ(composed("a\xCC\x81\xCC\xA3"), composed("a\xCC\xA3\xCC\x81"));
    EXPECT_EQ(composed("\xEF\xAC\x81"), "\xEF\xAC\x81") << "a ligature is another letter";
    EXPECT_EQ(composed("no \xE9 text"), "no \xE9 text");
}

}  // namespace
}  // namespace dedloc::base
