#include "dedloc/planning/plan_view.h"

#include <algorithm>
#include <cmath>

#include "dedloc/base/columns.h"
#include "dedloc/monitor/run_view.h"
#include "dedloc/monitor/terminal_view.h"
#include "dedloc/planner/explanation.h"
#include "dedloc/planning/light_advice.h"
#include "dedloc/planning/plan_classes.h"

namespace dedloc::planning {
namespace {

using planner::LoadPlan;

std::string padded(std::string text, std::size_t width, bool left) {
    return left ? base::left_in(text, width) : base::right_in(text, width);
}

// Columns as wide as their longest entry; the first `lefts` to the left, others to the right.
std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t lefts) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], base::columns(row[i]));
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += "  " + padded(row[i], widths[i], i < lefts);
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::string bar(double fraction) {
    constexpr double cells = 8;
    const double filled = std::clamp(fraction + 0.0005, 0.0, 1.0) * cells;
    static constexpr std::string_view eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    std::string text;
    for (int i = 0; i < static_cast<int>(filled); ++i) text += "█";
    text += eighths[static_cast<std::size_t>((filled - std::floor(filled)) * 8)];
    return padded(text, static_cast<std::size_t>(cells), true);
}

std::string busy_text(double fraction) {
    return fmt::format("{} {:>4}", bar(fraction), fmt::format("{:.0f} %", fraction * 100));
}

std::string label_text(const PeerClass& one) {
    constexpr std::size_t label_bytes = 40;
    return monitor::printable(one.label, label_bytes);
}

// Bytes that i sends k, in all.
double sent_bytes(const PlanFile& file, const LoadPlan& plan, std::size_t i, std::size_t k) {
    const planner::Transfer sent = planner::transfer(plan.peers, plan.split.part_elements, i, k);
    return static_cast<double>(sent.gradient_elements + sent.average_elements) *
           file.question.element_bytes;
}

// Rows and columns are peers; the darker a cell, the more bytes.
std::string shaded(const PlanFile& file, const LoadPlan& plan) {
    static constexpr std::string_view shades[] = {"·", "░", "▒", "▓", "█"};
    const std::vector<PeerClass> peers = single_peers(file, plan);
    // Two columns a peer look like a square, where there is room.
    const bool wide = peers.size() <= plan_columns_max / 2;
    double most = 0;
    std::size_t width = 0;
    for (std::size_t i = 0; i < peers.size(); ++i) {
        width = std::max(width, base::columns(label_text(peers[i])));
        for (std::size_t k = 0; k < peers.size(); ++k)
            most = std::max(most, sent_bytes(file, plan, i, k));
    }
    std::string text = "\nWho sends how much to whom (row to column, peers in the same order):\n\n";
    for (std::size_t i = 0; i < peers.size(); ++i) {
        text += "  " + padded(label_text(peers[i]), width, true) + "  ";
        std::string cells;
        for (std::size_t k = 0; k < peers.size(); ++k) {
            const double bytes = sent_bytes(file, plan, i, k);
            const auto shade = static_cast<std::size_t>(
                bytes <= 0 ? 0 : std::clamp(std::ceil(bytes / most * 4 - 1e-6), 1.0, 4.0));
            const std::string_view cell = i == k ? " " : shades[shade];
            cells += cell;
            if (wide) cells += shade == 0 ? " " : cell;
        }
        cells.erase(cells.find_last_not_of(' ') + 1);
        text += cells + "\n";
    }
    if (most > 0)
        text += fmt::format("\n  · nothing   ░ up to {}   ▒ {}   ▓ {}   █ {}\n",
                            bytes_text(most / 4),
                            bytes_text(most / 2),
                            bytes_text(most * 3 / 4),
                            bytes_text(most));
    return text;
}

// Bytes that each peer of a row sends each other peer of a column.
std::string numbers(const PlanFile& file, const LoadPlan& plan) {
    constexpr std::size_t classes_max = 8;
    const std::vector<PeerClass> classes = peer_classes(file, plan, classes_max);
    const auto total = static_cast<double>(file.question.elements_count);
    std::vector<std::vector<std::string>> rows = {{"from \\ to"}};
    for (const PeerClass& to : classes) rows[0].push_back(label_text(to));
    for (const PeerClass& from : classes) {
        std::vector<std::string> row = {label_text(from)};
        for (const PeerClass& to : classes) {
            const auto count_from = static_cast<double>(from.peers.size());
            const auto count_to = static_cast<double>(to.peers.size());
            if (&from == &to && from.peers.size() == 1) {
                row.push_back("");
                continue;
            }
            // Averages where a class holds different peers.
            const double gradient = from.contributors / count_from * to.part_elements / count_to;
            const double average = plan.peers[to.peers.front()].average_cost * to.receivers /
                                   count_to * from.part_elements / count_from;
            std::string cell;
            if (gradient > 0) cell += "g " + bytes_text(gradient * file.question.element_bytes);
            if (average > 0)
                cell += (cell.empty() ? "a " : " + a ") +
                        bytes_text(average * file.question.element_bytes);
            row.push_back(cell.empty() ? "–" : cell);
        }
        rows.push_back(std::move(row));
    }
    return fmt::format(
        "\nWhat each peer of a row sends each other peer of a column (g: its gradient of the\n"
        "other's part, a: the average of its own part; the whole vector is {}):\n\n{}",
        bytes_text(total * file.question.element_bytes),
        aligned(rows, 1));
}

// Broken at `columns`; later lines begin below the first one's words.
std::string paragraph(std::string_view sentence, std::string_view mark, std::size_t columns) {
    const std::size_t indent = mark.size() + 1;
    std::string text;
    std::string line(mark);
    std::size_t at = 0;
    while (at < sentence.size()) {
        const std::size_t end = std::min(sentence.find(' ', at), sentence.size());
        const std::string word = monitor::printable(sentence.substr(at, end - at), end - at);
        if (base::columns(line) + 1 + base::columns(word) > columns && line.size() > indent) {
            text += line + "\n";
            line = std::string(mark.size(), ' ');
        }
        line += " " + word;
        at = end + 1;
    }
    return text + line + "\n";
}

// The plan is of rounds as the file has them, which may be far from what suits the lines.
std::string planned_text(const PlanFile& file, const LoadPlan& plan) {
    std::size_t trainers = 0;
    std::size_t computing = 0;
    for (std::size_t i = 0; i < plan.peers.size(); ++i) {
        const planner::PlanPeer& peer = file.question.peers[i];
        if (!peer.rates.contributes || peer.samples_per_s <= 0) continue;
        ++trainers;
        computing += plan.peers[i].contributes ? 1 : 0;
    }
    const std::string when = file.local_steps > 1
                                 ? fmt::format("after {} local steps", file.local_steps)
                                 : std::string("after every batch");
    const std::string idle = computing < trainers
                                 ? fmt::format("; {} of {} trainers compute", computing, trainers)
                                 : std::string();
    return fmt::format("The plan of the file as it is (a round {}{}{}):",
                       when,
                       file.question.delayed ? ", delayed" : "",
                       idle);
}

std::string advice_text(const PlanFile& file, const LoadPlan& plan, std::size_t columns) {
    const auto advice = advise_light(file);
    if (!advice) return {};
    return "\nWhat suits these lines:\n" + paragraph(light_sentence(*advice), " ", columns) + "\n" +
           planned_text(file, plan) + "\n";
}

}  // namespace

std::string plan_table(const PlanFile& file, const LoadPlan& plan) {
    std::vector<std::vector<std::string>> rows = {
        {"peer", "role", "up", "down", "part", "each", "upload busy", "download busy"}};
    const auto total = static_cast<double>(file.question.elements_count);
    const double bits = file.question.element_bytes * 8;
    for (const PeerClass& one : peer_classes(file, plan, plan_rows_max)) {
        const std::size_t first = one.peers.front();
        const planner::PeerRates& rates = plan.peers[first];
        const double each = one.part_elements / static_cast<double>(one.peers.size());
        rows.push_back({label_text(one),
                        one.rest ? "" : std::string(role_text(file, plan, first)),
                        one.rest ? "" : planner::rate_text(rates.upload_per_s * bits),
                        one.rest ? "" : planner::rate_text(rates.download_per_s * bits),
                        percent_text(one.part_elements / total),
                        bytes_text(each * file.question.element_bytes),
                        busy_text(one.busy_up),
                        busy_text(one.busy_down)});
    }
    return aligned(rows, 2);
}

std::string plan_picture(const PlanFile& file, const LoadPlan& plan) {
    std::string text = numbers(file, plan);
    if (plan.peers.size() > 1 && plan.peers.size() <= plan_columns_max) text += shaded(file, plan);
    return text;
}

std::string plan_sentences(const LoadPlan& plan, std::size_t columns) {
    std::string text;
    for (const std::string& sentence : plan.sentences) text += paragraph(sentence, "-", columns);
    return text;
}

std::string plan_text(const PlanFile& file, const LoadPlan& plan, std::size_t columns) {
    return fmt::format(
        "{}{}{}\n{}{} elements{} in {} ({}), predicted {}\n\n{}{}\n{}",
        file.name,
        file.about.empty() ? "" : ": ",
        file.about,
        advice_text(file, plan, columns),
        file.question.elements_count,
        file.fragments > 1 ? fmt::format(", one of {} fragments,", file.fragments) : "",
        file.codec,
        bytes_text(static_cast<double>(file.question.elements_count) * file.question.element_bytes),
        planner::duration_text(plan.split.seconds),
        plan_table(file, plan),
        plan_picture(file, plan),
        plan_sentences(plan, columns));
}

}  // namespace dedloc::planning
