// Metrics for Prometheus (text format 0.0.4). The names, with what each means, are a promise:
// docs/web.md lists them, and a test compares.
//
// Thread: any; pure.

#pragma once
#include <string>

#include "dedloc/web/run_store.h"

namespace dedloc::web {

std::string metrics_text(const RunStore::Sums& sums);

}  // namespace dedloc::web
