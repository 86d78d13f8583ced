#include "dedloc/text/labelled.h"

#include <gtest/gtest.h>

namespace dedloc::text {
namespace {

std::string why(const auto& result) {
    EXPECT_FALSE(result);
    return result ? std::string() : result.error().message();
}

TEST(EntityFiles, of_conll_and_wikiann_are_read_with_any_line_ends) {
    const auto conll =
        parse_entities("\xEF\xBB\xBFSaul NNP B-PER\r\nof IN O\r\n\r\nRome X B-LOC\r\n");
    ASSERT_TRUE(conll) << conll.error().message();
    ASSERT_EQ(conll->sentences.size(), 2u);
    EXPECT_EQ(conll->sentences[0].words, (std::vector<std::string>{"Saul", "of"}));
    EXPECT_EQ(conll->labels, (std::vector<std::string>{"O", "B-LOC", "B-PER", "I-LOC", "I-PER"}));
    const auto wikiann = parse_entities("bn:ঢাকা\tB-LOC\nbn:শহর\tI-LOC\n\n10:30\tO\n");
    ASSERT_TRUE(wikiann);
    EXPECT_EQ(wikiann->sentences[0].words, (std::vector<std::string>{"ঢাকা", "শহর"}));
    EXPECT_EQ(wikiann->sentences[1].words, std::vector<std::string>{"10:30"});
}

TEST(EntityFiles, that_are_not_iob2_are_refused_with_the_line) {
    EXPECT_NE(why(parse_entities("a O\nb PER\n")).find("line 2: the label \"PER\""),
              std::string::npos);
    EXPECT_NE(why(parse_entities("a O\nb I-PER\n")).find("line 2: \"I-PER\" follows \"O\""),
              std::string::npos);
    EXPECT_NE(why(parse_entities("a B-LOC\nb I-PER\n")).find("begins with B-PER"),
              std::string::npos);
    EXPECT_NE(why(parse_entities("word\n")).find("has no label"), std::string::npos);
    EXPECT_NE(why(parse_entities("\n\n")).find("no labelled sentence"), std::string::npos);
    EXPECT_NE(why(parse_entities("a O\n")).find("names no entity"), std::string::npos);
    EXPECT_NE(why(parse_entities("a\xff O\n")).find("not UTF-8"), std::string::npos);
}

TEST(ClassFiles, with_a_header_or_without_are_read_by_rfc_4180) {
    const auto named = parse_classes("id,Text,Label\n1,\"a \"\"b\"\",\nc\",x\n2,d,y\n");
    ASSERT_TRUE(named) << named.error().message();
    ASSERT_EQ(named->texts.size(), 2u);
    EXPECT_EQ(named->texts[0].text, "a \"b\",\nc");
    EXPECT_EQ(named->classes, (std::vector<std::string>{"x", "y"}));
    EXPECT_EQ(named->texts[1].label, 1u);
    const auto plain = parse_classes("sports\tgoal\r\nstate\tvote\r\n");
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->texts[1].text, "vote");
}

TEST(ClassFiles, without_labels_are_refused_with_what_to_do) {
    EXPECT_NE(why(parse_classes("text\na\n")).find("names a text and no label"), std::string::npos);
    EXPECT_NE(why(parse_classes("label,x\na,b\n")).find("no text"), std::string::npos);
    EXPECT_NE(why(parse_classes("just text\nmore\n")).find("no header"), std::string::npos);
    EXPECT_NE(why(parse_classes("a,b\nc\n")).find("line 2"), std::string::npos);
    EXPECT_NE(why(parse_classes("text,label\nx,\n")).find("line 2: the label is empty"),
              std::string::npos);
    EXPECT_NE(why(parse_classes("a,\"b\nc,d\n")).find("never closed"), std::string::npos);
    EXPECT_NE(why(parse_classes("a,b\na,c\n")).find("nothing to tell apart"), std::string::npos);
    EXPECT_NE(why(parse_classes("")).find("no labelled text"), std::string::npos);
    EXPECT_NE(why(parse_classes("a,\"b\"c\n")).find("closing quotation mark"), std::string::npos);
}

}  // namespace
}  // namespace dedloc::text
