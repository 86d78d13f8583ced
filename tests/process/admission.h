// dedloc-lab admission: real processes, a run that lets in by invitation, and twelve who may not
// come in: each is told why in one sentence, a member attributes it to the right key, and the
// others' steps go on. Then a member that trains is revoked: nothing of it is in a step from two
// steps later on.
//
// A second run is about authority (authority_run.h): co-organisers, clocks that leap, an organiser
// that comes back, a key that is used twice.
//
// Cost: four processes and a dozen short ones twice, two or three minutes. Errors: local_fault.

#pragma once
#include <string>

namespace dedloc::lab {

struct AdmissionCommand {
    std::string program;    // the dedloc to start; empty: this one
    std::string directory;  // for the peers' files, kept; empty: a temporary one
    bool json = false;
};

int run_admission(const AdmissionCommand& command);

}  // namespace dedloc::lab
