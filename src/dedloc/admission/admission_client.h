// How a peer gets its token: from an organiser, by the code of its join string or by the token that
// it has; and where it keeps it.
//
// Errors: denied, in the organiser's words; also where the clocks are apart by more than tokens
// allow. peer_gone, timeout: no organiser could be reached.
// Thread: the network thread.

#pragma once
#include "dedloc/admission/admission_message.h"
#include "dedloc/p2p/host.h"
#include "dedloc/run/join_string.h"
#include "dedloc/runtime/disk.h"

namespace dedloc::admission {

inline constexpr const char* token_file = "token";  // in the peer's folder

// Asks a peer that is connected, or can be dialled by its id.
Task<Result<Admitted>> ask_admission(p2p::Host& host,
                                     PeerId organiser,
                                     AdmissionQuestion question,
                                     TimePoint deadline);

// The token that this machine takes part with: the one in its folder, renewed when half of its time
// is over and an organiser answers; else one for the code of the join string.
// Also denied: there is neither.
Task<Result<Admitted>> token_for(p2p::Host& host,
                                 runtime::Disk& disk,
                                 run::JoinString join,
                                 TimePoint deadline);

Result<Admitted> kept_token(runtime::Disk& disk);  // not_found; bad_input: no token
Ok keep_token(runtime::Disk& disk, const Admitted& admitted);

// Half of its time is over, or it is of a time to come. A token that cannot be read is due as well.
bool is_renewal_due(ByteView token, WallSeconds now);

}  // namespace dedloc::admission
