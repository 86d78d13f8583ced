#include "dedloc/text/source.h"

#include <array>
#include <utility>

#include "dedloc/text/names.h"

namespace dedloc::text {

namespace {

constexpr double weight_max = 1e6;

constexpr std::array<Named<SourceFormat>, 2> formats{
    {{"text", SourceFormat::text}, {"jsonl", SourceFormat::json_lines}}};
constexpr std::array<Named<DocumentUnit>, 3> units{{{"file", DocumentUnit::file},
                                                    {"paragraph", DocumentUnit::paragraph},
                                                    {"line", DocumentUnit::line}}};
constexpr std::array<Named<SentenceRule>, 2> rules{
    {{"line", SentenceRule::line}, {"punctuation", SentenceRule::punctuation}}};

Ok apply_option(SourceConfig& source, std::string_view name, std::string_view value) {
    if (name == "weight") {
        DEDLOC_TRY(source.weight, parse_number("weight", value, 0, weight_max));
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
    if (question < item.size()) {
        const auto apply = [&](std::string_view name, std::string_view value) {
            return apply_option(source, name, value);
        };
        DEDLOC_TRY_VOID(for_each_option(item.substr(question + 1), apply));
    }
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
