// Which dedloc this is: tests/repo/test_release.py compares it with CMakeLists.txt and the package
// in Python.

#pragma once
#include <string_view>

namespace dedloc::base {

inline constexpr std::string_view release = "0.1.0";

}  // namespace dedloc::base
