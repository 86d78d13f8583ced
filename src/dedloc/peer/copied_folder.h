// CopiedFolder: whether a peer's folder was copied since its peer ended. Two processes that are one
// peer take each other's place, so the user of a copy should hear of it.
//
// The note `place` in the folder has the file number of identity.key and the id of the machine. A
// copy, a backup that was brought back and another machine have others, a renamed folder has not.
//
// Thread: any; blocks for two small files.

#pragma once
#include <string>

namespace dedloc::peer {

// Also where there is no note: an earlier version's peer, or none, was the last one there.
bool may_be_copied(const std::string& directory);
// Notes that the folder is where its peer is. A note that cannot be written only asks once more.
void note_place(const std::string& directory);

}  // namespace dedloc::peer
