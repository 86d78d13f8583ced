#include "dedloc/templates/run_file_settings.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

namespace dedloc::templates {
namespace {

constexpr std::size_t setting_bytes_max = 4096;

struct Setting {
    std::string section;  // empty: above all sections
    std::string key;      // in it
    std::string value;    // as TOML has it
};

std::string_view trimmed(std::string_view text) {
    const auto is_blank = [](char letter) { return letter == ' ' || letter == '\t'; };
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
}

bool is_number(std::string_view text) {
    double value = 0;
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && !text.empty() &&
           text.find_first_not_of("0123456789.eE+-") == std::string_view::npos;
}

std::string as_toml(std::string_view value) {
    const bool is_whole = value == "true" || value == "false" || is_number(value) ||
                          (value.size() >= 2 && value.front() == '"' && value.back() == '"');
    if (is_whole) return std::string(value);
    std::string quoted = "\"";
    for (const char letter : value) {
        if (letter == '"' || letter == '\\') quoted += '\\';
        quoted += letter;
    }
    return quoted + '"';
}

Result<Setting> setting_in(std::string_view text) {
    const std::size_t equals = text.find('=');
    const std::string_view path = trimmed(text.substr(0, equals));
    const std::string_view value =
        equals == std::string_view::npos ? "" : trimmed(text.substr(equals + 1));
    const bool is_path = !path.empty() && path.find_first_of("[]\"'# \n") == std::string_view::npos;
    const bool is_line = value.find_first_of("\n\r") == std::string_view::npos;
    if (!is_path || value.empty() || !is_line || text.size() > setting_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "'{}' is no setting: write section.key=value, as batch.target=2048",
                          text.substr(0, 64));
    const std::size_t dot = path.rfind('.');
    if (dot == std::string_view::npos)
        return Setting{.section = {}, .key = std::string(path), .value = as_toml(value)};
    return Setting{.section = std::string(path.substr(0, dot)),
                   .key = std::string(path.substr(dot + 1)),
                   .value = as_toml(value)};
}

// The name of the section that a line begins.
std::optional<std::string_view> section_begun_by(std::string_view line) {
    line = trimmed(line);
    if (!line.starts_with('[')) return std::nullopt;
    return trimmed(line.substr(1, line.find(']') - 1));
}

std::string_view key_in(std::string_view line) {
    const std::size_t equals = line.find('=');
    return equals == std::string_view::npos ? std::string_view() : trimmed(line.substr(0, equals));
}

// Returns all that stands behind the value of "key = value  # comment": blanks and the comment.
std::string_view behind_value(std::string_view line) {
    bool in_quotes = false;
    std::size_t end = line.size();
    for (std::size_t i = line.find('=') + 1; i < line.size(); ++i) {
        if (in_quotes && line[i] == '\\') {
            ++i;
            continue;
        }
        if (line[i] == '"') in_quotes = !in_quotes;
        if (line[i] != '#' || in_quotes) continue;
        end = i;
        break;
    }
    const std::string_view value = trimmed(line.substr(0, end));
    return end == line.size() ? std::string_view() : line.substr(value.size());
}

std::vector<std::string> lines_in(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        lines.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

std::string changed(std::string_view text, const Setting& setting) {
    std::vector<std::string> lines = lines_in(text);
    const std::string wanted = setting.key + " = " + setting.value;
    std::string section;
    std::optional<std::size_t> place;  // where the key would be added
    if (setting.section.empty()) place = 0;
    bool found = false;
    for (std::size_t i = 0; i < lines.size() && !found; ++i) {
        if (const auto begun = section_begun_by(lines[i])) {
            section = *begun;
            if (section == setting.section) place = i + 1;
            continue;
        }
        if (section != setting.section || key_in(lines[i]) != setting.key) continue;
        lines[i] = wanted + std::string(behind_value(lines[i]));
        found = true;
    }
    if (!found && place) lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(*place), wanted);
    if (!found && !place) lines.insert(lines.end(), {"", "[" + setting.section + "]", wanted});
    std::string out;
    for (const std::string& line : lines) out += line + "\n";
    return out;
}

// Without "file:7:1: ", as the line is the user's no more.
std::string_view without_place(std::string_view message, std::string_view file) {
    if (!message.starts_with(file)) return message;
    std::string_view rest = message.substr(file.size());
    for (int part = 0; part < 2; ++part) {
        if (!rest.starts_with(':')) return message;
        rest.remove_prefix(1);
        rest.remove_prefix(std::min(rest.find_first_not_of("0123456789"), rest.size()));
    }
    return rest.starts_with(": ") ? rest.substr(2) : message;
}

}  // namespace

Result<std::string> with_settings(std::string text,
                                  std::span<const std::string> settings,
                                  std::string_view file_name) {
    if (settings.empty()) return text;
    DEDLOC_TRY_VOID(run::parse_run_file(text, file_name));
    std::string whole = text;
    for (const std::string& one : settings) {
        DEDLOC_TRY(const Setting setting, setting_in(one));
        whole = changed(whole, setting);
    }
    const auto run = run::parse_run_file(whole, file_name);
    if (run) return whole;
    // Some go together only: the first that the rest does not mend is told.
    for (const std::string& one : settings) {
        text = changed(text, *setting_in(one));
        const auto so_far = run::parse_run_file(text, file_name);
        if (!so_far && so_far.error().message() == run.error().message())
            return make_error(ErrorKind::bad_input,
                              "--set {}: {}",
                              one,
                              without_place(run.error().message(), file_name));
    }
    return make_error(ErrorKind::bad_input,
                      "--set {}: {}",
                      settings.back(),
                      without_place(run.error().message(), file_name));
}

}  // namespace dedloc::templates
