// say: what commands print where there is no Screen.
//
// fmt::print throws where it cannot write. That a log is full (`2>> log`), or that nobody reads any
// more (`| tee log`), must neither end a relay nor give a command another exit code than its own.
//
// Thread: one. Errors: none; main() asks output_error() at the end.

#pragma once
#include <cstdio>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace dedloc::peer {

void say_text(std::FILE* to, std::string_view text);

template <typename... Args>
void say(std::FILE* to, fmt::format_string<Args...> format, Args&&... args) {
    say_text(to, fmt::format(format, std::forward<Args>(args)...));
}

// Why something of what was printed on standard output is missing there (an errno), or 0. Who reads
// no more (EPIPE) misses nothing.
int output_error();

}  // namespace dedloc::peer
