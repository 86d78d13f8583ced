// A saved page: the web page of a run as one file that shows it without a server: the page's own
// files and what its store knows now. It asks nothing of anybody; a browser opens it from a disk.
//
// Thread: any. Cost: what the store keeps, as text (RunStore's limits). Limits: a sheet of at most
// saved_sheet_bytes_max, or it is left out.

#pragma once
#include <string>

#include "dedloc/web/run_store.h"

namespace dedloc::web {

inline constexpr std::size_t saved_sheet_bytes_max = 2u << 20;

// `sheets_folder`: what became of prompts (sheets.h), which the page shows as well; empty: nothing.
std::string saved_page(RunStore& store, const std::string& sheets_folder = {});

}  // namespace dedloc::web
