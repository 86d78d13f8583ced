// The report of a run, or of several beside each other, as one HTML page: no script, no request to
// anywhere, light and dark, drawings as SVG. It may be mailed, printed and put on any web server.
//
// Names are other people's: they are escaped. Thread: any; pure. Cost: some 100 kB of text.

#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dedloc/monitor/participation.h"
#include "dedloc/monitor/run_history.h"
#include "dedloc/monitor/why.h"

namespace dedloc::monitor {

struct ReportTitle {
    std::string run;      // its name
    std::string run_id;   // short hash
    std::string made_at;  // as people write it
};

// All that there is beside participation.
struct ReportExtras {
    std::vector<Scalar> scalars{};  // of events: measured on held-out data, among others
    std::optional<Why> why{};
};

std::string report_page(const ReportTitle& title,
                        const Participation& report,
                        const ReportExtras& extras = {});

}  // namespace dedloc::monitor
