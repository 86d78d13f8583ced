// Checks of our own invariants. A failed check is our bug: it prints the values and stops the
// program. Never use it on input from peers, files or users: those failures are Results.
//
// Cost: one compare; always on.

#pragma once
#include <fmt/format.h>
#include <string_view>

namespace dedloc::base {

[[noreturn]] void check_failed(const char* expression,
                               const char* file,
                               int line,
                               std::string_view details);

}  // namespace dedloc::base

// DEDLOC_CHECK(cond) or DEDLOC_CHECK(cond, "format {}", values...).
#define DEDLOC_CHECK(condition, ...)                                                         \
    do {                                                                                     \
        if (!(condition)) [[unlikely]]                                                       \
            ::dedloc::base::check_failed(                                                    \
                #condition, __FILE__, __LINE__, ::dedloc::base::check_details(__VA_ARGS__)); \
    } while (false)

namespace dedloc::base {

inline std::string check_details() { return {}; }

template <typename... Args>
std::string check_details(fmt::format_string<Args...> format, Args&&... args) {
    return fmt::format(format, std::forward<Args>(args)...);
}

}  // namespace dedloc::base
