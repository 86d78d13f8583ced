// The files of `dedloc-lab fleet`: when machines are taken away, and what machines cost
// (experiments/fleet/).
//
// Errors: bad_input, with file and line. Thread: any.

#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"

#include "tests/sim/virtual_run.h"

namespace dedloc::lab {

inline constexpr std::size_t trace_machines_max = 1024;

// The absences of each machine, by its number; machine 0 is the host, which nobody takes.
using FleetTrace = std::vector<std::vector<VirtualAbsence>>;
Result<FleetTrace> parse_fleet_trace(std::string_view text, const std::string& file);

struct MachinePrice {
    std::string machine{};
    std::string what{};
    double on_demand = 0;  // USD an hour
    double spot = 0;
    double speed = 1;  // in machines of the fleet
};
struct FleetPrices {
    std::string dated{};
    MachinePrice fleet{};
    MachinePrice large{};
};
Result<FleetPrices> parse_fleet_prices(std::string_view text, const std::string& file);

// Hours of a machine that are paid for, in a run of `seconds`: until it is gone, and from its
// successor's boot.
double paid_hours(const std::vector<VirtualAbsence>& absences, double seconds, double boot_s);

}  // namespace dedloc::lab
