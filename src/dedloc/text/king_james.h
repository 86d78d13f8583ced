// The King James Bible as plain text: the default corpus, public domain.
//
// Debian's package bible-kjv keeps it packed; its program prints it once into the cache folder.
// The file has one verse a line and a blank line between chapters: 31,102 verses, 1,189 chapters,
// 4.1 MB, the same bytes on every machine.
//
// Cost: 0.1 s once. Thread: any. Blocks.
// Errors: not_found    the package is missing; says how to install it
//         local_fault  the program or the disk failed, or the text is not whole

#pragma once
#include <cstdint>
#include <string>

#include "dedloc/base/result.h"

namespace dedloc::text {

inline constexpr const char* bible_program = "/usr/bin/bible";
inline constexpr std::uint32_t king_james_verses = 31102;
inline constexpr std::uint32_t king_james_chapters = 1189;

// The path of the text, which is made when it is not there or not whole.
Result<std::string> king_james_bible(const std::string& cache_directory,
                                     const std::string& program = bible_program);

// From the program's output to our form; local_fault unless all verses are there.
Result<std::string> king_james_text(std::string_view printed);

}  // namespace dedloc::text
