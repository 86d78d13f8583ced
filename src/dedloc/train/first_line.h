// first_line: what an exception says, for people. libtorch appends its stack to that.
//
// Thread: any.

#pragma once
#include <exception>
#include <string>

namespace dedloc::train {

inline std::string first_line(const std::exception& failure) {
    const std::string text = failure.what();
    return text.substr(0, text.find('\n'));
}

}  // namespace dedloc::train
