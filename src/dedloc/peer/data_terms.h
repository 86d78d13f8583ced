// The licence and the origin of data that a run sends: who joins sees both, and says yes, before
// anything is downloaded. What was agreed to is kept in the peer's folder and not asked again.
//
// Thread: the main thread. Blocks while somebody thinks.

#pragma once
#include <functional>
#include <optional>
#include <string>

#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/peer_options.h"
#include "dedloc/run/task_section.h"

namespace dedloc::peer {

inline constexpr const char* data_terms_file = "data-terms";

// The lines that a person reads; text of other machines is made printable.
std::string data_terms(const run::TaskConfig& task, std::uint64_t cache_bytes);

// Asks, unless --yes was given or this folder's peer has agreed before. A failure: no, or there is
// nobody to ask.
std::optional<Failure> agree_on_data(const run::TaskConfig& task,
                                     const PeerOptions& options,
                                     const std::string& directory,
                                     const std::function<void(const std::string&)>& say);

}  // namespace dedloc::peer
