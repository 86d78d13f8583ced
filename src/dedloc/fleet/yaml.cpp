#include "dedloc/fleet/yaml.h"

#include <algorithm>
#include <fmt/format.h>

namespace dedloc::fleet {
namespace {

using nlohmann::ordered_json;

std::string quoted(const std::string& text) {
    return ordered_json(text).dump(
        -1, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace);
}

// Keys of manifests are words; others are quoted.
std::string key_text(const std::string& key) {
    const auto plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '/';
    };
    const bool is_word = !key.empty() && std::ranges::all_of(key, plain) && key.front() != '-' &&
                         key != "true" && key != "false" && key != "null" && key != "yes" &&
                         key != "no" && key != "on" && key != "off" && key != "y" && key != "n";
    return is_word ? key : quoted(key);
}

// A literal block keeps a text that ends with one line break, begins with no blank, and has letters
// of ASCII alone.
bool fits_literal_block(const std::string& text) {
    if (text.size() < 2 || text.find('\n') == text.size() - 1 || text.back() != '\n' ||
        text[text.size() - 2] == '\n' || text.front() == ' ' || text.front() == '\n')
        return false;
    return std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= 32 && c < 127); });
}

void write(std::string& out, const ordered_json& value, std::size_t indent);

void write_block(std::string& out, const std::string& text, std::size_t indent) {
    out += " |\n";
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = text.find('\n', begin);
        if (end > begin) out += std::string(indent, ' ') + text.substr(begin, end - begin);
        out += '\n';
        begin = end + 1;
    }
}

// A value goes on behind its "key:" or "-".
void write_value(std::string& out, const ordered_json& value, std::size_t indent) {
    const bool has_lines = value.is_structured() && !value.empty();
    if (value.is_string() && fits_literal_block(value.get_ref<const std::string&>()))
        return write_block(out, value.get_ref<const std::string&>(), indent);
    if (!has_lines) {
        out += ' ';
        out += value.is_string() ? quoted(value.get_ref<const std::string&>()) : value.dump();
        out += '\n';
        return;
    }
    out += '\n';
    write(out, value, indent);
}

// The first line of an item goes on behind its "- ".
void write_item(std::string& out, const ordered_json& item, std::size_t indent) {
    if (!item.is_object() || item.empty()) return write_value(out, item, indent + 2);
    std::string lines;
    write(lines, item, indent + 2);
    out += ' ' + lines.substr(indent + 2);
}

void write(std::string& out, const ordered_json& value, std::size_t indent) {
    for (const auto& [key, item] : value.items()) {
        out += std::string(indent, ' ');
        if (value.is_array()) {
            out += '-';
            write_item(out, item, indent);
        } else {
            out += key_text(key) + ":";
            write_value(out, item, indent + 2);
        }
    }
}

}  // namespace

std::string to_yaml(const ordered_json& value) {
    std::string out;
    if (value.is_structured() && !value.empty()) {
        write(out, value, 0);
        return out;
    }
    return value.dump() + "\n";
}

std::string to_yaml(const std::vector<ordered_json>& documents) {
    std::string out;
    for (const ordered_json& document : documents) {
        if (!out.empty()) out += "---\n";
        out += to_yaml(document);
    }
    return out;
}

}  // namespace dedloc::fleet
