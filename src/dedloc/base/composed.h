// composed(): text in Unicode's normal form C. An accented letter is one code point on most
// keyboards, and a letter with a mark behind it in file names that macOS wrote: nobody sees the
// difference, and names that people compare must not have one. The form is the same for all
// versions of Unicode.
//
// Source: Unicode Annex 15, by utf8proc. Cost: none for ASCII. Thread: any.

#pragma once
#include <string>
#include <string_view>

namespace dedloc::base {

// Text that is no UTF-8 stays as it is.
std::string composed(std::string_view text);

}  // namespace dedloc::base
