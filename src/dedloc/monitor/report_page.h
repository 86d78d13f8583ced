// The report of a run as one HTML page: no script, no request to anywhere, light and dark, drawings
// as SVG. It may be mailed, printed and put on any web server.
//
// Names are other people's: they are escaped. Thread: any; pure. Cost: some 100 kB of text.

#pragma once
#include <string>

#include "dedloc/monitor/participation.h"

namespace dedloc::monitor {

struct ReportTitle {
    std::string run;      // its name
    std::string run_id;   // short hash
    std::string made_at;  // as people write it
};

std::string report_page(const ReportTitle& title, const Participation& report);

// Text as HTML shows it, in attributes too.
std::string escape_html(std::string_view text);

}  // namespace dedloc::monitor
