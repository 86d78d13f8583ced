// RunHistory: what a peer's folder tells of its run, for reports: certified steps from
// certificates.log, when they were made and at which loss from events.jsonl, and whose devices the
// peers are: from the tokens that the peer checked (events `person`), else from the names by which
// devices call themselves.
//
// The peer verified every certificate before it wrote it; nothing but names is taken from what
// peers tell of themselves. The logs go on where a run is resumed in the same folder. A step that
// was decided once more, on a branch that won or in a run that was resumed from an older state,
// counts as it was decided last.
//
// Errors: bad_input (a folder without certificates), local_fault. Blocks; reads a file of the log
// at a time. Cost: linear in the logs.

#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/events/events.h"
#include "dedloc/monitor/participation.h"

namespace dedloc::monitor {

struct Scalar {
    WallSeconds time = 0;
    std::uint64_t step = 0;
    std::string name;  // "loss", "evaluation/accuracy"
    double value = 0;
};

// The measures of an event, as it has them or made of its numbers alone; empty: it has none. Values
// that are not finite are left out.
std::vector<Scalar> scalars_of(const events::Event& event);

struct RunHistory {
    std::vector<CertifiedStep> steps;       // in order
    std::map<PeerId, std::string> persons;  // by invitation, else as devices call themselves
    PeerId us{};                            // whose folder it is; empty: a log of older versions
    std::vector<Scalar> scalars;            // of events, in their order
};

Result<RunHistory> read_history(const std::string& folder);

// The events of a folder are given to this, oldest first; lines that are no events are left out.
using TakeEvent = std::function<void(const events::Event& event)>;
Ok read_events(const std::string& folder, const TakeEvent& take);

// "time,step,name,value" and a line for each.
std::string to_csv(const std::vector<Scalar>& scalars);

}  // namespace dedloc::monitor
