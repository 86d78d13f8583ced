#include "dedloc/fleet/script_words.h"

#include <algorithm>

#include "dedloc/base/shell_quoted.h"

namespace dedloc::fleet {
namespace {

constexpr std::size_t label_bytes_max = 40;  // of 63, as "-host-0" and the like follow
constexpr std::string_view other_plain_letters = "_./:=,@%+-";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool is_plain_word(std::string_view text) {
    return !text.empty() && text.front() != '-' && std::ranges::all_of(text, [](char c) {
        return is_letter(c) || is_digit(c) || other_plain_letters.find(c) != std::string_view::npos;
    });
}

std::string shell_line(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) {
        if (!line.empty()) line += ' ';
        const bool means_itself =
            is_plain_word(word) || (word.starts_with("--") && is_plain_word(word.substr(2)));
        line += means_itself ? word : base::shell_quoted(word);
    }
    return line;
}

std::string label_of(std::string_view name) {
    std::string label;
    for (const char c : name) {
        const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        const bool keeps = is_letter(lower) || is_digit(lower);
        if (keeps)
            label += lower;
        else if (!label.empty() && label.back() != '-')
            label += '-';
        if (label.size() == label_bytes_max) break;
    }
    while (!label.empty() && label.back() == '-') label.pop_back();
    if (label.empty()) return "dedloc";
    return is_digit(label.front()) ? "run-" + label : label;
}

}  // namespace dedloc::fleet
