// Log lines for people, on standard error. A peer must not be able to cause unbounded lines: what
// its bytes trigger is logged at debug level or counted. Nobody waits for a terminal or pipe that
// takes nothing: what it misses is counted, and said later.
//
// Thread: any.

#pragma once
#include <fmt/format.h>
#include <string_view>

namespace dedloc::base {

enum class LogLevel { debug, info, warning, error, silent };

void set_log_level(LogLevel level);  // default: warning
LogLevel log_level();
void log_line(LogLevel level, std::string_view room, std::string_view text);

template <typename... Args>
void log(LogLevel level,
         std::string_view room,
         fmt::format_string<Args...> format,
         Args&&... args) {
    if (level >= log_level())
        log_line(level, room, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace dedloc::base

namespace dedloc {
using base::log;
using base::LogLevel;
}  // namespace dedloc
