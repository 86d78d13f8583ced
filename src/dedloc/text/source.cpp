#include "dedloc/text/source.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace dedloc::text {

namespace {

template <typename T>
struct Named {
    std::string_view name;
    T value;
};

constexpr std::array<Named<SourceFormat>, 2> formats{
    {{"text", SourceFormat::text}, {"jsonl", SourceFormat::json_lines}}};
constexpr std::array<Named<DocumentUnit>, 3> units{{{"file", DocumentUnit::file},
                                                    {"paragraph", DocumentUnit::paragraph},
                                                    {"line", DocumentUnit::line}}};
constexpr std::array<Named<SentenceRule>, 2> rules{
    {{"line", SentenceRule::line}, {"punctuation", SentenceRule::punctuation}}};

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

Result<double> parse_weight(std::string_view text) {
    double weight = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(weight) ||
        weight <= 0 || weight > 1e6)
        return make_error(
            ErrorKind::bad_input, "weight '{}' is not a number between 0 and 1000000", text);
    return weight;
}

Ok apply_option(SourceConfig& source, std::string_view name, std::string_view value) {
    if (name == "weight") {
        DEDLOC_TRY(source.weight, parse_weight(value));
        return {};
    }
    if (source.format == SourceFormat::kjv)
        return make_error(
            ErrorKind::bad_input, "kjv takes no option but weight, and this is '{}'", name);
    if (name == "documents") {
        DEDLOC_TRY(source.documents, by_name(units, value, "unit of documents"));
    } else if (name == "sentences") {
        DEDLOC_TRY(source.sentences, by_name(rules, value, "rule for sentences"));
    } else if (name == "field" && source.format == SourceFormat::json_lines && !value.empty()) {
        source.field = value;
    } else {
        return make_error(ErrorKind::bad_input,
                          "a source takes weight, documents, sentences and, with jsonl, field; "
                          "not '{}={}'",
                          name,
                          value);
    }
    return {};
}

Ok apply_options(SourceConfig& source, std::string_view options) {
    while (!options.empty()) {
        const std::size_t end = std::min(options.find('&'), options.size());
        const std::string_view option = options.substr(0, end);
        const std::size_t sign = option.find('=');
        if (sign == std::string_view::npos)
            return make_error(
                ErrorKind::bad_input, "'{}' should be an option like weight=0.5", option);
        DEDLOC_TRY_VOID(apply_option(source, option.substr(0, sign), option.substr(sign + 1)));
        options.remove_prefix(std::min(end + 1, options.size()));
    }
    return {};
}

Result<SourceConfig> parse_source(std::string_view item) {
    SourceConfig source;
    const std::size_t question = std::min(item.find('?'), item.size());
    const std::string_view head = item.substr(0, question);
    const std::size_t colon = head.find(':');
    if (head == "kjv") {
        source.documents = DocumentUnit::paragraph;
        source.sentences = SentenceRule::line;
    } else if (colon == std::string_view::npos || colon + 1 == head.size()) {
        return make_error(ErrorKind::bad_input,
                          "'{}' is not a source of text; write kjv, text:PATH or jsonl:PATH",
                          item);
    } else {
        DEDLOC_TRY(source.format, by_name(formats, head.substr(0, colon), "format of text"));
        source.path = head.substr(colon + 1);
    }
    if (question < item.size()) DEDLOC_TRY_VOID(apply_options(source, item.substr(question + 1)));
    return source;
}

}  // namespace

Result<std::vector<SourceConfig>> parse_sources(std::string_view text) {
    std::vector<SourceConfig> sources;
    while (true) {
        const std::size_t end = std::min(text.find(','), text.size());
        DEDLOC_TRY(SourceConfig source,
                   parse_source(without_surrounding_space(text.substr(0, end))));
        if (sources.size() == sources_max)
            return make_error(
                ErrorKind::bad_input, "more than {} sources of text in one run", sources_max);
        sources.push_back(std::move(source));
        if (end == text.size()) return sources;
        text.remove_prefix(end + 1);
    }
}

std::string to_string(const std::vector<SourceConfig>& sources) {
    const SourceConfig plain{};
    std::string text;
    for (const SourceConfig& source : sources) {
        if (!text.empty()) text += ", ";
        std::string options;
        const auto add = [&](std::string_view name, std::string_view value) {
            options += fmt::format("{}{}={}", options.empty() ? '?' : '&', name, value);
        };
        if (source.weight != 1) add("weight", fmt::format("{}", source.weight));
        if (source.format == SourceFormat::kjv) {
            text += "kjv" + options;
            continue;
        }
        if (source.documents != plain.documents) add("documents", name_of(units, source.documents));
        if (source.sentences != plain.sentences) add("sentences", name_of(rules, source.sentences));
        if (source.field != plain.field) add("field", source.field);
        text += fmt::format("{}:{}{}", name_of(formats, source.format), source.path, options);
    }
    return text;
}

}  // namespace dedloc::text
