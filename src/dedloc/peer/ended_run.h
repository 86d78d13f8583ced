// Why nobody of a run answers: where a peer of this machine saw it end, when and at which step;
// else as much as the join string tells.
//
// Nobody keeps a run's end for strangers: its peers leave when it has come. What is left of it is
// the folders of those who took part.
//
// Thread: any; reads the ends of event logs.

#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "dedloc/base/time.h"
#include "dedloc/run/join_string.h"

namespace dedloc::peer {

struct EndedRun {
    WallSeconds time = 0;
    std::uint64_t step = 0;
    std::string folder;  // of the peer that saw it
};

// In `folder`: nothing where the run went on after it, in the same folder.
std::optional<EndedRun> end_seen_in(const std::string& folder);
// In the numbered folders of this machine, and in `directory`, if there is one; the newest.
std::optional<EndedRun> end_seen_here(const Digest& run, const std::string& directory);

// A sentence for people; `why` says in words that nobody could be reached.
std::string why_nobody_answers(const run::JoinString& join,
                               const std::string& directory,
                               const std::string& why);

}  // namespace dedloc::peer
