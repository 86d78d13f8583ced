#include "dedloc/cli/serve_words.h"

#include <cmath>
#include <fmt/format.h>

#include "dedloc/base/printable.h"

namespace dedloc::cli {
namespace {

constexpr double clock_worth_a_word_s = 3;
// Now and then an honest gradient is longer than others'.
constexpr std::uint64_t bounded_calls_min = 100;
constexpr double bounded_part_min = 0.2;  // of a member's calls
constexpr std::uint64_t told_again_factor = 10;

std::string in_mebibytes(std::uint64_t bytes) {
    return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

std::string words_of_report(const collab::ExpertReport& report,
                            double calls_per_s,
                            std::uint64_t taken,
                            std::uint64_t lent) {
    return fmt::format(
        "{} experts, {}; {} of {} MiB in use; {:.1f} calls/s; {} calls and {} rows answered, {} "
        "updates; keeps {} copies; refused {}, overloaded {}",
        report.serves.size(),
        in_mebibytes(report.bytes),
        taken >> 20,
        lent >> 20,
        calls_per_s,
        report.calls.calls,
        report.calls.rows,
        report.calls.updates,
        report.keeps,
        report.requests.refused,
        report.calls.overloaded);
}

std::string why_idle(const collab::ExpertReport& report, std::uint64_t experts_max) {
    const experts::GridSurvey& grid = report.grid;
    if (!grid.looked) return "it looks who serves which expert";
    if (grid.elsewhere + grid.missing == 0)
        return "the table of names does not answer, so nobody knows who serves what; is a peer of "
               "the run in reach?";
    const std::string spare = fmt::format(
        "it keeps {} copies, and takes over when one of the servers goes", report.keeps);
    if (grid.missing == 0)
        return fmt::format("others serve all {} experts; {}", grid.elsewhere, spare);
    if (report.host.no_memory > 0)
        return fmt::format("nobody serves {} experts, and the memory lent has no room for one now",
                           grid.missing);
    return fmt::format(
        "others, with more room than the {} that fit here, are to take the {} experts that nobody "
        "serves; {}",
        experts_max,
        grid.missing,
        spare);
}

std::string words_of_clock(double difference_s) {
    if (std::abs(difference_s) < clock_worth_a_word_s) return {};
    return fmt::format(
        "this computer's clock is {:.0f} s {} those of the others; its experts are declared by "
        "their time. Set it.",
        std::abs(difference_s),
        difference_s > 0 ? "behind" : "ahead of");
}

std::string MembersTold::observe(const PeerId& peer,
                                 const std::string& name,
                                 const experts::MemberUpdates& updates) {
    const std::uint64_t bounded = updates.shortened + updates.withheld;
    if (bounded < bounded_calls_min ||
        static_cast<double>(bounded) < bounded_part_min * static_cast<double>(updates.calls))
        return {};
    std::uint64_t& told = told_[peer];
    if (told > 0 && bounded < told_again_factor * told) return {};
    told = bounded;
    return fmt::format(
        "gradients of {} ({}): {} of {} were longer than others' and are shortened, {} were more "
        "than its share, or of one that does not train, and changed nothing",
        name.empty() ? std::string("a member") : base::printable(name),
        peer.text(),
        updates.shortened,
        updates.calls,
        updates.withheld);
}

}  // namespace dedloc::cli
