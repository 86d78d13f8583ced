#include "dedloc/run/field_words.h"

#include <charconv>
#include <cmath>

namespace dedloc::run {

std::string_view word_of(std::optional<codec::CodecId> id) {
    return id ? codec::to_string(*id) : adaptive;
}
std::string_view word_of(optim::OptimizerKind kind) { return optim::to_string(kind); }
std::string_view word_of(optim::ScheduleKind kind) { return optim::to_string(kind); }

Ok set_from_word(std::optional<codec::CodecId>& id, std::string_view word) {
    id.reset();
    if (word == adaptive) return {};
    const auto known = codec::codec_from_string(word);
    if (!known)
        return make_error(known.error().kind(), "{}, or {}", known.error().message(), adaptive);
    id = *known;
    return {};
}
Ok set_from_word(optim::OptimizerKind& kind, std::string_view word) {
    DEDLOC_TRY(kind, optim::optimizer_from_string(word));
    return {};
}
Ok set_from_word(optim::ScheduleKind& kind, std::string_view word) {
    DEDLOC_TRY(kind, optim::schedule_from_string(word));
    return {};
}

std::string in_quotes(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) < 32 || c == 127)
            out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
        else
            out += c;
    }
    return out + '"';
}

std::string to_word(double value) {
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

namespace {

struct Unit {
    std::string_view name;
    std::int64_t nanoseconds;
};
constexpr Unit units[] = {{"h", 3600'000'000'000},
                          {"min", 60'000'000'000},
                          {"s", 1'000'000'000},
                          {"ms", 1'000'000},
                          {"us", 1'000},
                          {"ns", 1}};

}  // namespace

std::string to_word(Duration value) {
    for (const Unit& unit : units)
        if (unit.name != "h" && unit.name != "min" && value.count() % unit.nanoseconds == 0)
            return fmt::format("\"{}{}\"", value.count() / unit.nanoseconds, unit.name);
    return {};
}

std::optional<Duration> duration_from(std::string_view text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
    const std::string_view name(end, static_cast<std::size_t>(text.data() + text.size() - end));
    for (const Unit& unit : units) {
        const double nanoseconds = number * static_cast<double>(unit.nanoseconds);
        if (unit.name == name && nanoseconds < 1e18)
            return Duration(static_cast<std::int64_t>(std::llround(nanoseconds)));
    }
    return std::nullopt;
}

std::string join_words(const std::vector<std::string_view>& words) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
        text += in_quotes(words[i]);
    }
    return text;
}

std::string_view last_part(std::string_view key) {
    return key.substr(key.rfind('.') + 1);  // npos + 1 == 0
}

std::string_view section_of(std::string_view key) {
    const auto dot = key.rfind('.');
    return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}

}  // namespace dedloc::run
