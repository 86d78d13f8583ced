// Several runs beside each other, or one run as several of its peers saw it: a page with their
// curves in the same charts, a table, and what their run files differ in.
//
// Labels are told apart by the caller. Thread: any; pure. Cost: some 100 kB of text a run.

#pragma once
#include <string>
#include <vector>

#include "dedloc/monitor/report_page.h"

namespace dedloc::monitor {

inline constexpr std::size_t compared_runs_max = 6;  // colours there are (charts.h)

struct ComparedRun {
    std::string label;
    Participation report;
    std::vector<Scalar> scalars{};
    Why why{};  // with the run's file

    // Means of the last tenth of what was told; nothing: nothing was.
    std::optional<double> loss_at_end() const;
    std::optional<double> best_accuracy() const;
    double samples_per_s() const;
};

std::string compare_page(const std::string& made_at, const std::vector<ComparedRun>& runs);
// A table for a terminal, and an object for programs.
std::string to_text(const std::vector<ComparedRun>& runs);
std::string to_json(const std::vector<ComparedRun>& runs);

}  // namespace dedloc::monitor
