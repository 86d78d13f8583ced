// Reads fields from a parsed TOML file, strictly: the first wrong one becomes an error that names
// the line and says what to write instead. Only for the sources that read the run file.
//
// Thread: any; pure.

#pragma once
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/run/field_rules.h"
#include "dedloc/run/field_words.h"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace dedloc::run {

// A visitor of fields. One that the file does not have keeps its value.
class TomlReader {
  public:
    TomlReader(const toml::table& root, std::string_view file) : root_(root), file_(file) {}

    static constexpr bool all = true;  // every key may stand in a file
    std::optional<Error> error;        // the first

    template <std::unsigned_integral Integer>
    void operator()(std::string_view key, Integer& value, const Integers& rule) {
        if (const auto number = integer(key, rule)) value = static_cast<Integer>(*number);
    }
    void operator()(std::string_view key, std::uint64_t& value, const IntegersOrAuto& rule);
    void operator()(std::string_view key, double& value, const NumbersOrAuto& rule);
    void operator()(std::string_view key, double& value, const Numbers& rule);
    void operator()(std::string_view key, Duration& value, const Durations& rule);
    void operator()(std::string_view key, std::string& value, const Text& rule);
    void operator()(std::string_view key, std::string& value, const Choice& rule);
    template <typename Kind>
    void operator()(std::string_view key, Kind& value, const Enumeration&) {
        const toml::node* node = find(key);
        if (!node) return;
        const auto* text = node->as_string();
        if (!text) return wrong_type(key, *node, "a word in quotes");
        if (const Ok set = set_from_word(value, text->get()); !set)
            fail(*node, fmt::format("'{}': {}", key, set.error().message()));
    }
    // A version, which cannot be chosen.
    void operator()(std::string_view key, const std::uint64_t& version);
    void operator()(std::string_view key, bool& value);

    void fail(const toml::node& node, std::string_view sentence);
    // Where the key stands; at the top where it does not.
    void fail_key(std::string_view key, std::string_view sentence);
    const toml::node* find(std::string_view key) const;

  private:
    std::optional<std::uint64_t> integer(std::string_view key, const Integers& rule);
    void wrong_type(std::string_view key, const toml::node& node, std::string_view wanted);
    void not_one_of(std::string_view key,
                    const toml::node& node,
                    const std::vector<std::string_view>& words);

    const toml::table& root_;
    std::string_view file_;
};

// Looks for the first key of the file that is no known one.
class UnknownKey {
  public:
    UnknownKey(std::string_view file, const std::vector<Word>& known)
        : file_(file), known_(known) {}

    // Finds an unknown key in the table whose own path is `above`, empty or with a dot at its end.
    std::optional<Error> find_in(const toml::table& table, const std::string& above = {}) const;

  private:
    bool is_known(std::string_view key) const;
    bool is_section(std::string_view key) const;
    std::string suggestion(std::string_view unknown) const;
    Error complain(const toml::key& key, std::string_view what, std::string path) const;

    std::string_view file_;
    const std::vector<Word>& known_;
};

}  // namespace dedloc::run
