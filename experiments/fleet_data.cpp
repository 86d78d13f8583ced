#include "experiments/fleet_data.h"

#include <algorithm>
#include <array>
#include <charconv>

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace dedloc::lab {
namespace {

constexpr std::string_view trace_head = "machine,notice_s,gone_s,back_s";

// Reads four whole numbers with commas between them; false: the line is something else.
bool read_row(std::string_view line, std::array<std::uint64_t, 4>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
        const std::size_t comma = std::min(line.find(','), line.size());
        const std::string_view word = line.substr(0, comma);
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), row[i]);
        if (error != std::errc() || end != word.data() + word.size()) return false;
        const bool is_last = i + 1 == row.size();
        if ((comma == line.size()) != is_last) return false;
        line.remove_prefix(std::min(comma + 1, line.size()));
    }
    return true;
}

Result<MachinePrice> read_price(const toml::table& root, const char* key, const std::string& file) {
    const toml::table* table = root[key].as_table();
    MachinePrice price;
    if (table) {
        price.machine = (*table)["machine"].value_or(std::string());
        price.what = (*table)["what"].value_or(std::string());
        price.on_demand = (*table)["on_demand"].value_or(0.0);
        price.spot = (*table)["spot"].value_or(0.0);
        price.speed = (*table)["speed"].value_or(0.0);
    }
    if (price.machine.empty() || !(price.on_demand > 0) || !(price.spot > 0) || !(price.speed > 0))
        return make_error(ErrorKind::bad_input,
                          "{}: [{}] needs machine, on_demand, spot and speed, all above 0",
                          file,
                          key);
    return price;
}

}  // namespace

Result<FleetTrace> parse_fleet_trace(std::string_view text, const std::string& file) {
    FleetTrace trace;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (number == 1 && line == trace_head) continue;
        std::array<std::uint64_t, 4> row{};
        const bool is_row = number > 1 && read_row(line, row) && row[0] > 0 &&
                            row[0] < trace_machines_max && row[1] <= row[2] && row[2] < row[3];
        if (!is_row)
            return make_error(ErrorKind::bad_input,
                              "{}:{}: a trace begins with '{}', and machines above 0 are told, "
                              "gone and back in that order",
                              file,
                              number,
                              trace_head);
        if (trace.size() <= row[0]) trace.resize(row[0] + 1);
        auto& absences = trace[row[0]];
        const auto seconds = [](std::uint64_t count) {
            return from_seconds(static_cast<double>(count));
        };
        if (!absences.empty() && seconds(row[1]) < absences.back().until)
            return make_error(
                ErrorKind::bad_input, "{}:{}: machine {} is away then", file, number, row[0]);
        absences.push_back({.from = seconds(row[1]),
                            .notice = seconds(row[2] - row[1]),
                            .until = seconds(row[3])});
    }
    return trace;
}

Result<FleetPrices> parse_fleet_prices(std::string_view text, const std::string& file) {
    const toml::parse_result parsed = toml::parse(text, file);
    if (!parsed)
        return make_error(ErrorKind::bad_input,
                          "{}:{}: {}",
                          file,
                          parsed.error().source().begin.line,
                          parsed.error().description());
    FleetPrices prices;
    prices.dated = parsed.table()["dated"].value_or(std::string());
    if (prices.dated.empty())
        return make_error(ErrorKind::bad_input, "{}: 'dated' says of which day prices are", file);
    DEDLOC_TRY(prices.fleet, read_price(parsed.table(), "fleet", file));
    DEDLOC_TRY(prices.large, read_price(parsed.table(), "large", file));
    return prices;
}

double paid_hours(const std::vector<VirtualAbsence>& absences, double seconds, double boot_s) {
    double paid = seconds;
    for (const VirtualAbsence& absence : absences) {
        const double gone = std::min(to_seconds(absence.from + absence.notice), seconds);
        const double boots = std::min(to_seconds(absence.until) - boot_s, seconds);
        paid -= std::max(0.0, boots - gone);
    }
    return paid / 3600;
}

}  // namespace dedloc::lab
