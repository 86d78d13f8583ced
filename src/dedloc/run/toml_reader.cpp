#include "dedloc/run/toml_reader.h"

#include <algorithm>

#include "dedloc/base/edit_distance.h"
#include "dedloc/base/printable.h"

namespace dedloc::run {

namespace {

bool is_auto(const toml::node& node) {
    const auto* text = node.as_string();
    return text && text->get() == "auto";
}

}  // namespace

std::optional<std::uint64_t> TomlReader::integer(std::string_view key, const Integers& rule) {
    const toml::node* node = find(key);
    if (!node) return std::nullopt;
    const auto* integer = node->as_integer();
    if (!integer) {
        wrong_type(key, *node, "a whole number");
        return std::nullopt;
    }
    const std::int64_t number = integer->get();
    if (number < 0 || static_cast<std::uint64_t>(number) < rule.min ||
        static_cast<std::uint64_t>(number) > rule.max) {
        fail(*node,
             fmt::format("'{}' must be from {} to {}, not {}", key, rule.min, rule.max, number));
        return std::nullopt;
    }
    return static_cast<std::uint64_t>(number);
}

void TomlReader::operator()(std::string_view key,
                            std::uint64_t& value,
                            const IntegersOrAuto& rule) {
    const toml::node* node = find(key);
    if (!node) return;
    if (is_auto(*node)) {
        value = 0;
        return;
    }
    if (!node->is_integer()) return wrong_type(key, *node, "a whole number, or \"auto\"");
    (*this)(key, value, Integers{rule.min, rule.max});
}

void TomlReader::operator()(std::string_view key, double& value, const Numbers& rule) {
    const toml::node* node = find(key);
    if (!node) return;
    const auto number = node->value<double>();
    if (!number || !node->is_number()) return wrong_type(key, *node, "a number");
    if (!(*number >= rule.min && *number <= rule.max))
        return fail(
            *node,
            fmt::format("'{}' must be from {} to {}, not {}", key, rule.min, rule.max, *number));
    value = *number == 0 ? 0 : *number;  // no negative zero: one value, one hash
}

void TomlReader::operator()(std::string_view key, double& value, const NumbersOrAuto& rule) {
    const toml::node* node = find(key);
    if (!node) return;
    if (is_auto(*node)) {
        value = 0;
        return;
    }
    if (!node->is_number()) return wrong_type(key, *node, "a number, or \"auto\"");
    (*this)(key, value, Numbers{rule.min, rule.max});
}

void TomlReader::operator()(std::string_view key, Duration& value, const Durations& rule) {
    const toml::node* node = find(key);
    if (!node) return;
    const auto* text = node->as_string();
    const auto duration = text ? duration_from(text->get()) : std::nullopt;
    if (!duration) return wrong_type(key, *node, "a duration in quotes like \"10s\" or \"500ms\"");
    if (*duration < rule.min || *duration > rule.max)
        return fail(*node,
                    fmt::format("'{}' must be from {} to {}, not {}",
                                key,
                                to_word(rule.min),
                                to_word(rule.max),
                                to_word(*duration)));
    value = *duration;
}

void TomlReader::operator()(std::string_view key, std::string& value, const Text& rule) {
    const toml::node* node = find(key);
    if (!node) {
        if (rule.required && !error)
            error = make_error(ErrorKind::bad_input,
                               "{}:1:1: '{}' is missing; write: {} = \"…\"",
                               file_,
                               key,
                               key);
        return;
    }
    const auto* text = node->as_string();
    if (!text) return wrong_type(key, *node, "a text in quotes");
    if (text->get().empty() || text->get().size() > rule.bytes_max)
        return fail(
            *node,
            fmt::format(
                "'{}' must have 1 to {} letters, not {}", key, rule.bytes_max, text->get().size()));
    // Names and words of a run come to the terminals of all who are asked to join it.
    if (!base::is_printable(text->get()))
        return fail(*node,
                    fmt::format("'{}' must not contain control characters, nor marks that "
                                "turn the direction of writing",
                                key));
    value = text->get();
}

void TomlReader::operator()(std::string_view key, std::string& value, const Choice& rule) {
    const toml::node* node = find(key);
    if (!node) return;
    const auto* text = node->as_string();
    if (!text || std::find(rule.words.begin(), rule.words.end(), text->get()) == rule.words.end())
        return not_one_of(key, *node, rule.words);
    value = text->get();
}

void TomlReader::operator()(std::string_view key, const std::uint64_t& version) {
    const toml::node* node = find(key);
    if (!node) return;
    const auto* integer = node->as_integer();
    if (!integer) return wrong_type(key, *node, "a whole number");
    if (integer->get() < 0 || static_cast<std::uint64_t>(integer->get()) != version)
        fail(*node,
             fmt::format("'{}' is {} in this file, but this dedloc computes with {}; use the "
                         "version of dedloc that the run was made with, as a run cannot change it, "
                         "or begin a new run with its model: dedloc host RUNFILE --from CHECKPOINT",
                         key,
                         integer->get(),
                         version));
}

void TomlReader::operator()(std::string_view key, bool& value) {
    const toml::node* node = find(key);
    if (!node) return;
    if (!node->is_boolean()) return wrong_type(key, *node, "true or false");
    value = node->as_boolean()->get();
}

void TomlReader::fail(const toml::node& node, std::string_view sentence) {
    if (error) return;  // the first one
    const auto& at = node.source().begin;
    error = make_error(ErrorKind::bad_input, "{}:{}:{}: {}", file_, at.line, at.column, sentence);
}

void TomlReader::fail_key(std::string_view key, std::string_view sentence) {
    if (const toml::node* node = find(key)) return fail(*node, sentence);
    if (!error) error = make_error(ErrorKind::bad_input, "{}:1:1: {}", file_, sentence);
}

const toml::node* TomlReader::find(std::string_view key) const {
    const toml::table* table = &root_;
    for (;;) {
        const auto dot = key.find('.');
        const toml::node* node = table->get(key.substr(0, dot));
        if (!node || dot == std::string_view::npos) return node;
        table = node->as_table();
        if (!table) return nullptr;
        key.remove_prefix(dot + 1);
    }
}

void TomlReader::wrong_type(std::string_view key, const toml::node& node, std::string_view wanted) {
    fail(node, fmt::format("'{}' must be {}", key, wanted));
}

void TomlReader::not_one_of(std::string_view key,
                            const toml::node& node,
                            const std::vector<std::string_view>& words) {
    const auto* text = node.as_string();
    const std::string got =
        text && text->get().size() < 64 ? fmt::format(", not {}", in_quotes(text->get())) : "";
    fail(node, fmt::format("'{}' must be {}{}", key, join_words(words), got));
}

// "; did you mean 'batch.target'?" or nothing.
std::string UnknownKey::suggestion(std::string_view unknown) const {
    constexpr std::size_t key_bytes_max = 64;
    if (unknown.size() > key_bytes_max) return {};
    std::string_view best;
    std::size_t best_distance = unknown.size() / 3 + 1;
    for (const Word& word : known_) {
        std::size_t distance = base::edit_distance(unknown, word.key);
        if (last_part(unknown) == last_part(word.key))
            distance = std::min<std::size_t>(distance, 2);
        if (distance < best_distance) {
            best_distance = distance;
            best = word.key;
        }
    }
    return best.empty() ? std::string() : fmt::format("; did you mean '{}'?", best);
}

std::optional<Error> UnknownKey::find_in(const toml::table& table, const std::string& above) const {
    for (const auto& [key, node] : table) {
        const std::string path = above + std::string(key.str());
        // "batch.target" in quotes is one key and no section with one.
        if (key.str().find('.') != std::string_view::npos) return complain(key, "key", path);
        if (is_known(path)) continue;
        const toml::table* inner = node.as_table();
        if (is_section(path)) {
            if (!inner) return complain(key, "key", path);
            if (auto unknown = find_in(*inner, path + ".")) return unknown;
            continue;
        }
        // A misspelt section: name the first key in it, whose neighbour is easier to guess.
        if (inner && !inner->empty())
            return complain(inner->begin()->first,
                            "key",
                            path + "." + std::string(inner->begin()->first.str()));
        return complain(key, inner ? "section" : "key", path);
    }
    return std::nullopt;
}

bool UnknownKey::is_known(std::string_view key) const {
    return std::any_of(
        known_.begin(), known_.end(), [&](const Word& word) { return word.key == key; });
}

bool UnknownKey::is_section(std::string_view key) const {
    const std::string start = std::string(key) + ".";
    return std::any_of(known_.begin(), known_.end(), [&](const Word& word) {
        return word.key.starts_with(start);
    });
}

Error UnknownKey::complain(const toml::key& key, std::string_view what, std::string path) const {
    const auto& at = key.source().begin;
    for (char& c : path)
        if (static_cast<unsigned char>(c) < 32) c = '?';
    return make_error(ErrorKind::bad_input,
                      "{}:{}:{}: unknown {} '{}'{}",
                      file_,
                      at.line,
                      at.column,
                      what,
                      path.substr(0, 80),
                      suggestion(path));
}

}  // namespace dedloc::run
