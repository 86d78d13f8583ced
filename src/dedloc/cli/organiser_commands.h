// The commands `invite NAME`, `revoke` and `members` share: the organiser's peer on this machine,
// and its book. What is asked of it: peer/organiser_wish.h.
//
// Errors: Failure with unreachable (no peer runs there), bad_input (another kind of run), disk.

#pragma once
#include <string>

#include "dedloc/admission/invite_book.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/run/join_string.h"

namespace dedloc::cli {

// The peer in `directory`, or the only one of an invited run that runs on this machine.
peer::Outcome<peer::RunningPeer> organising_peer(const std::string& directory);

// The folder of an organiser's peer, whether it runs or not.
struct OrganiserFolder {
    std::string path;
    std::string run_name;
    Digest run;
};
// `directory`, or the folder of the only such peer on this machine; one that runs goes before those
// that have been stopped.
peer::Outcome<OrganiserFolder> organiser_folder(const std::string& directory);

// As the peer last wrote it; empty where nobody was invited yet.
Result<admission::InviteBook> read_book(const std::string& directory, const Digest& run);

}  // namespace dedloc::cli
