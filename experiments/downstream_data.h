// The texts that `dedloc-lab downstream` trains and tunes on, made of what Debian and npm have.
//
//   verses   6,236 verses in Bengali with the place of their revelation (npm's quran-json 3.1.2,
//            which tools/test_data.sh brings; for tests only, nothing is passed on)
//   topics   names and keywords of emoji in Bengali with Unicode's group of the emoji (Debian's
//            unicode-cldr-core and unicode-data)
//   names    verses of the King James Bible with persons and places (strongs.h; Debian's
//            sword-text-kjv, sword-dict-strongs-hebrew, sword-dict-strongs-greek, libsword-utils)
//
// Each writes a file for `dedloc finetune` into `folder`, and what a model is pre-trained on into
// `folder`/text. Blocks, for some seconds at most.
// Errors: not_found: the data are missing; says what to install. local_fault, bad_input.

#pragma once
#include <cstddef>
#include <string>

#include "dedloc/base/result.h"

namespace dedloc::lab {

// Each returns the file's path.
Result<std::string> write_verses(const std::string& folder);
Result<std::string> write_topics(const std::string& folder);
// Takes one in `one_in` of the verses that name somebody or something.
Result<std::string> write_names(const std::string& folder, std::size_t one_in);

}  // namespace dedloc::lab
