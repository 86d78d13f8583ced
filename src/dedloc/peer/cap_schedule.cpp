#include "dedloc/peer/cap_schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <time.h>
#include <utility>

namespace dedloc::peer {
namespace {

constexpr std::string_view example =
    "write Mb/s, such as 20, or with other values at times of the day: '5,23:00-07:00=50' "
    "(off: no limit)";
constexpr double megabit_of_cap_bytes = 1e6 / 8;

std::string_view without_spaces(std::string_view text) {
    const auto first = text.find_first_not_of(' ');
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// Splits at the first `mark`: what is before it, and what is behind.
std::optional<std::pair<std::string_view, std::string_view>> parted(std::string_view text,
                                                                    char mark) {
    const auto at = text.find(mark);
    if (at == std::string_view::npos) return std::nullopt;
    return std::pair(without_spaces(text.substr(0, at)), without_spaces(text.substr(at + 1)));
}

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

Result<double> parse_mbit(std::string_view text) {
    if (text == "off") return 0.0;
    const auto mbit = number_in<double>(text);
    if (!mbit)
        return make_error(ErrorKind::bad_input, "'{}' is no number of Mb/s; {}", text, example);
    if (*mbit == 0) return 0.0;
    if (!std::isfinite(*mbit) || *mbit < cap_mbit_min || *mbit > cap_mbit_max)
        return make_error(ErrorKind::bad_input,
                          "a cap of {} Mb/s is not between {} and {}; off means no limit",
                          text,
                          cap_mbit_min,
                          cap_mbit_max);
    return *mbit;
}

Result<int> parse_minute(std::string_view text) {
    const auto parts = parted(text, ':');
    const auto hours = parts ? number_in<int>(parts->first) : std::nullopt;
    const auto minutes = parts ? number_in<int>(parts->second) : std::nullopt;
    const bool is_time = hours && minutes && *hours >= 0 && *minutes >= 0 && *minutes < 60 &&
                         parts->second.size() == 2 && *hours <= 24 &&
                         *hours * 60 + *minutes <= minutes_of_day;
    if (!is_time)
        return make_error(ErrorKind::bad_input,
                          "'{}' is no time of the day; write it as 23:00, between 00:00 and 24:00",
                          text);
    return *hours * 60 + *minutes;
}

Result<CapSchedule> parse_cap(std::string_view option, const std::string& text) {
    if (text.empty()) return CapSchedule();
    auto schedule = CapSchedule::parse(text);
    if (schedule) return schedule;
    return schedule.error().with_context(fmt::format("{} '{}'", option, text));
}

std::string cap_in_words(double bytes_per_s) {
    if (bytes_per_s <= 0) return "without limit";
    return fmt::format("at most {:g} Mb/s", bytes_per_s / megabit_of_cap_bytes);
}

}  // namespace

bool CapSchedule::Range::contains(int minute) const {
    if (begin < end) return begin <= minute && minute < end;
    return begin <= minute || minute < end;
}

bool CapSchedule::Range::overlaps(const Range& other) const {
    return contains(other.begin) || other.contains(begin);
}

Result<CapSchedule::Range> CapSchedule::parse_range(std::string_view text) {
    const auto parts = parted(text, '=');
    const auto times = parts ? parted(parts->first, '-') : std::nullopt;
    if (!times)
        return make_error(
            ErrorKind::bad_input, "'{}' is no range of the day with its Mb/s; {}", text, example);
    DEDLOC_TRY(const int begin, parse_minute(times->first));
    DEDLOC_TRY(const int end, parse_minute(times->second));
    DEDLOC_TRY(const double mbit, parse_mbit(parts->second));
    if ((end - begin) % minutes_of_day == 0)
        return make_error(ErrorKind::bad_input,
                          "the range {} ends where it begins; what holds all day is the value that "
                          "comes first, as 5 in '5,23:00-07:00=50'",
                          parts->first);
    return Range{.begin = begin % minutes_of_day, .end = end, .mbit = mbit};
}

Ok CapSchedule::add(std::string_view text) {
    DEDLOC_TRY(const Range range, parse_range(text));
    for (const Range& other : ranges_)
        if (range.overlaps(other))
            return make_error(ErrorKind::bad_input,
                              "the range '{}' overlaps another one; at any time one value counts",
                              text);
    if (ranges_.size() == cap_ranges_max)
        return make_error(
            ErrorKind::bad_input, "there are more than {} ranges of the day", cap_ranges_max);
    ranges_.push_back(range);
    return {};
}

Result<CapSchedule> CapSchedule::parse(std::string_view text) {
    CapSchedule schedule;
    auto rest = parted(text, ',');
    const std::string_view first = rest ? rest->first : without_spaces(text);
    if (first.find('=') != std::string_view::npos)
        return make_error(ErrorKind::bad_input,
                          "the value for the rest of the day must come before the ranges; {}",
                          example);
    DEDLOC_TRY(schedule.otherwise_, parse_mbit(first));
    while (rest) {
        const std::string_view ranges = rest->second;
        rest = parted(ranges, ',');
        DEDLOC_TRY_VOID(schedule.add(rest ? rest->first : ranges));
    }
    return schedule;
}

double CapSchedule::value_at(int minute) const {
    const auto found = std::ranges::find_if(
        ranges_, [minute](const Range& range) { return range.contains(minute); });
    return found == ranges_.end() ? otherwise_ : found->mbit;
}

int minute_of_day(WallSeconds time) {
    const auto seconds = static_cast<time_t>(time);
    tm local{};
    ::localtime_r(&seconds, &local);
    return local.tm_hour * 60 + local.tm_min;
}

Result<std::function<runtime::LineCaps(WallSeconds)>> caps_of_day(const std::string& max_up,
                                                                  const std::string& max_down) {
    std::function<runtime::LineCaps(WallSeconds)> caps;
    if (max_up.empty() && max_down.empty()) return caps;
    DEDLOC_TRY(const CapSchedule up, parse_cap("--max-up", max_up));
    DEDLOC_TRY(const CapSchedule down, parse_cap("--max-down", max_down));
    caps = [up, down](WallSeconds now) {
        const int minute = minute_of_day(now);
        return runtime::LineCaps{.up = up.value_at(minute) * megabit_of_cap_bytes,
                                 .down = down.value_at(minute) * megabit_of_cap_bytes};
    };
    return caps;
}

std::string caps_in_words(const runtime::LineCaps& caps) {
    if (caps == runtime::LineCaps{}) return "sends and receives without limit";
    return fmt::format("sends {}, receives {}", cap_in_words(caps.up), cap_in_words(caps.down));
}

events::Event caps_event(const runtime::LineCaps& caps, WallSeconds now) {
    return {.time = now,
            .text = "this peer " + caps_in_words(caps),
            .what = events::CapsChanged{.up_mbit = caps.up / megabit_of_cap_bytes,
                                        .down_mbit = caps.down / megabit_of_cap_bytes}};
}

}  // namespace dedloc::peer
