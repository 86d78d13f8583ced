// Labelled text for fine-tuning: sentences whose words have entity labels, and texts with a class.
//
//   entities   one word a line, its label last, separated by blanks or a tab; a blank line ends a
//              sentence. CoNLL's, WikiANN's ("bn:word\tB-PER") and hironsan's files are such
//   classes    CSV or TSV, by RFC 4180, with a header that names "text" and "label" (or the like),
//              or two columns without one, the class first, as IndicGLUE's files have it
//
// A byte-order mark and CR line ends are taken. The files are people's: every error names the line
// and what to write instead.
//
// Errors: bad_input. Cost: linear; memory: the file's size, about twice. Thread: any; pure.

#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::text {

inline constexpr std::size_t labelled_bytes_max = 1u << 30;
inline constexpr std::size_t classes_max = 4096;  // of one file; more are no classes
inline constexpr std::size_t entity_types_max = 256;

struct LabelledSentence {
    std::vector<std::string> words;
    std::vector<std::string> labels;  // IOB2, one a word
};

struct EntityFile {
    std::vector<LabelledSentence> sentences;
    std::vector<std::string> labels;  // all that occur, "O" first, then sorted
};
Result<EntityFile> parse_entities(std::string_view file);

struct LabelledText {
    std::string text;
    std::size_t label = 0;  // of ClassFile::classes
};

struct ClassFile {
    std::vector<LabelledText> texts;
    std::vector<std::string> classes;  // sorted
};
Result<ClassFile> parse_classes(std::string_view file);

}  // namespace dedloc::text
