#include "experiments/strongs.h"

#include <gtest/gtest.h>

namespace dedloc::lab {
namespace {

constexpr std::string_view hebrew =
    "$$$00085\n<entryFree n=\"85\"><def>Contracted from <ref target=\"StrongsHebrew:1\">H1</ref> "
    "and an unused root (a place);<lb/> <hi rend=\"italic\">{Abraham}</hi> the later name of <hi "
    "rend=\"bold\">Abram:</hi> - Abraham.</def></entryFree>\n"
    "$$$01834\n<entryFree n=\"1834\"><def>Of foreign origin;<lb/> <hi "
    "rend=\"italic\">Damascus</hi> "
    "a city of <hi rend=\"bold\">Syria:</hi> - Damascus.</def></entryFree>\n"
    "$$$03063\n<entryFree n=\"3063\"><def>From; <hi rend=\"italic\">Jehudah</hi> the name of five "
    "Israelites: - Judah.</def></entryFree>\n"
    "$$$04428\n<entryFree n=\"4428\"><def>From; a <hi rend=\"italic\">king:</hi> a king: - king "
    "royal.</def></entryFree>\n";

StrongsLexicon lexicon_of(std::string_view printed) {
    StrongsLexicon lexicon;
    lexicon.add(printed, 'H');
    return lexicon;
}

std::string labels_of(std::string_view verses) {
    std::string all;
    for (const auto& verse : label_verses(verses, lexicon_of(hebrew)))
        for (std::size_t i = 0; i < verse.words.size(); ++i)
            all += verse.words[i] + "/" + verse.labels[i] + " ";
    return all;
}

TEST(Strongs, what_a_number_names_is_told_by_the_rule_or_by_the_table) {
    const StrongsLexicon lexicon = lexicon_of(hebrew);
    EXPECT_EQ(lexicon.kind("H1834"), NameKind::place);
    EXPECT_EQ(lexicon.kind("H0085"), NameKind::person);  // the rule cannot tell
    EXPECT_EQ(lexicon.kind("H3063"), NameKind::none);    // a tribe, though the rule says a person
    EXPECT_EQ(lexicon.kind("H9999"), NameKind::none);
}

TEST(Strongs, a_greek_entry_is_read_behind_its_origin) {
    EXPECT_EQ(kind_by_rule("<def><orig>of Hebrew origin (a city);</orig><lb/> Aaron, the brother "
                           "of Moses:--Aaron.</def>",
                           true),
              NameKind::person);
}

TEST(Strongs, words_of_a_number_get_its_labels_and_marks_stand_apart) {
    EXPECT_EQ(labels_of("$$$Genesis 1:0\n<chapter/>\n$$$Genesis 1:1\nAnd <w lemma=\"strong:H0085\">"
                        "Abraham’s</w> <w lemma=\"strong:H4428\">king</w> went<note>note</note> to "
                        "<w lemma=\"strong:H1834\">Damascus</w>.\n"),
              "And/O Abraham/B-PER 's/O king/O went/O to/O Damascus/B-LOC ./O ");
}

TEST(Strongs, a_number_that_is_mostly_written_small_is_no_name) {
    EXPECT_EQ(labels_of("$$$Genesis 1:1\n<w lemma=\"strong:H4428\">Kings</w> <w "
                        "lemma=\"strong:H4428\">kings</w>\n"),
              "Kings/O kings/O ");
}

}  // namespace
}  // namespace dedloc::lab
