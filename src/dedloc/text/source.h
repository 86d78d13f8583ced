// Where text comes from, as one line of a run file or of a command says it.
//
//   kjv                                      the King James Bible (Debian package bible-kjv)
//   text:books                               a .txt file, or a folder of them (below it, too)
//   jsonl:oscar?field=content&weight=0.77    JSON lines: .jsonl, .ndjson
//   jsonl:oscar?weight=0.77, text:wiki?weight=0.23&documents=paragraph
//
// Options: weight     share of the samples, against the others' (1)
//          documents  file, paragraph (blank lines between), line: what a pair of sentences never
//                     crosses. Of JSON lines each record is one at least
//          sentences  punctuation, line
//          field      of JSON lines: the field with the text (text)
// Relative paths are below the data folder that a peer names (--data), so that one run file suits
// everybody.
//
// Thread: any; pure. Errors: bad_input.

#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/text/sentences.h"

namespace dedloc::text {

inline constexpr std::size_t sources_max = 64;  // of one run

enum class SourceFormat { kjv, text, json_lines };
enum class DocumentUnit { file, paragraph, line };

struct SourceConfig {
    SourceFormat format = SourceFormat::kjv;
    std::string path;
    double weight = 1;
    DocumentUnit documents = DocumentUnit::file;
    SentenceRule sentences = SentenceRule::punctuation;
    std::string field = "text";
    friend bool operator==(const SourceConfig&, const SourceConfig&) = default;
};

Result<std::vector<SourceConfig>> parse_sources(std::string_view text);
// parse_sources(to_string(s)) gives s again.
std::string to_string(const std::vector<SourceConfig>& sources);

}  // namespace dedloc::text
