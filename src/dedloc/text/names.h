// Names of the values of an enumeration, for texts like "documents=line&weight=2".

#pragma once
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "dedloc/base/result.h"

namespace dedloc::text {

template <typename T>
struct Named {
    std::string_view name;
    T value;
};

template <typename T, std::size_t count>
Result<T> by_name(const std::array<Named<T>, count>& table,
                  std::string_view name,
                  std::string_view what) {
    std::string known;
    for (const Named<T>& entry : table) {
        if (entry.name == name) return entry.value;
        known += (known.empty() ? "" : ", ") + std::string(entry.name);
    }
    return make_error(ErrorKind::bad_input, "there is no {} '{}'; known: {}", what, name, known);
}

template <typename T, std::size_t count>
std::string_view name_of(const std::array<Named<T>, count>& table, T value) {
    for (const Named<T>& entry : table)
        if (entry.value == value) return entry.name;
    return {};
}

// A number in (low, high].
inline Result<double> parse_number(std::string_view name,
                                   std::string_view text,
                                   double low,
                                   double high) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(number) ||
        number <= low || number > high)
        return make_error(ErrorKind::bad_input,
                          "{} '{}' is not a number above {} and at most {}",
                          name,
                          text,
                          low,
                          high);
    return number;
}

// Calls apply(name, value) for every "name=value" between the &s.
template <typename Apply>
Ok for_each_option(std::string_view options, Apply apply) {
    while (!options.empty()) {
        const std::size_t end = std::min(options.find('&'), options.size());
        const std::string_view option = options.substr(0, end);
        const std::size_t sign = option.find('=');
        if (sign == std::string_view::npos)
            return make_error(
                ErrorKind::bad_input, "'{}' should be an option like weight=0.5", option);
        DEDLOC_TRY_VOID(apply(option.substr(0, sign), option.substr(sign + 1)));
        options.remove_prefix(std::min(end + 1, options.size()));
    }
    return {};
}

}  // namespace dedloc::text
