// Names of peers from the event log that a peer left in its folder.
//
// Nobody signed them, and a peer calls itself what it likes: they are for people only. A log names
// whoever was seen to leave or to be lost, in the sentence of that event.
//
// Thread: any; blocks for file reads. Errors: none; what cannot be read has no names.

#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "dedloc/base/peer_id.h"

namespace dedloc::audit {

// From events.1.jsonl and events.jsonl in `folder`; a later name takes the place of an earlier one.
void add_names_in_events(const std::filesystem::path& folder, std::map<PeerId, std::string>& names);

}  // namespace dedloc::audit
