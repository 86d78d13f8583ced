// Names in the King James Bible, by Strong's numbers: a Bible that says of each word which word of
// the Hebrew or Greek it translates, and a lexicon that says of these what they name.
//
// A rule reads the lexicon: after the name itself the first word that means a kind of thing
// decides. "{Damascus} a city of Syria" is a place; "a son of Jacob; also the tribe descended from
// him" a person. The 400 commonest numbers were read by a person, and those in which the rule errs
// are in a table. Peoples and tribes are no names here, gods neither; a word counts only where it
// is written with a capital, and a number only if most of its words are.
//
// Input: what Debian's `mod2imp` prints of sword-text-kjv and sword-dict-strongs-hebrew and -greek.
// Thread: any; pure. Cost: a second for 31,102 verses.

#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/text/labelled.h"

namespace dedloc::lab {

enum class NameKind { none, person, place };

class StrongsLexicon {
  public:
    // `language`: 'H' or 'G'.
    void add(std::string_view printed, char language);
    // `number`: "H0085". none: no name, or not known.
    NameKind kind(const std::string& number) const;
    std::size_t size() const { return kinds_.size(); }

  private:
    std::map<std::string, NameKind> kinds_;
};

// Tells what the lexicon's entry names; `greek` entries are written otherwise.
NameKind kind_by_rule(std::string_view entry, bool greek);

// Each verse as words with IOB2 labels: PER, LOC.
std::vector<text::LabelledSentence> label_verses(std::string_view printed,
                                                 const StrongsLexicon& lexicon);

}  // namespace dedloc::lab
