// Is a file of a release whole? Beside it lies SHA256SUMS, as sha256sum writes it.
//
// Errors: not_found: no such file, no SHA256SUMS, or none for it; conflict: other bytes.
// Cost: the file is read once, in pieces. Thread: any, but no network's: it blocks.

#pragma once
#include <string>

#include "dedloc/base/result.h"

namespace dedloc::cli {

inline constexpr const char* checksums_file = "SHA256SUMS";
inline constexpr std::size_t checksums_bytes_max = 1u << 20;  // a release has some ten files

Ok check_release_file(const std::string& path);

}  // namespace dedloc::cli
