// Peers say these to an organiser of an invited run.
//
//   /dedloc/admission/1          {1 run, 2 code, 3 token} -> {1 token, 2 delegation, 3 its clock}
//   /dedloc/admission/1/revoked  {1 revocations} -> {1 revocations}
//
// A newcomer shows its code, whoever renews shows the token that it has. The caller's key is the
// connection's. A refusal is one sentence.

#pragma once
#include <optional>
#include <vector>

#include "dedloc/admission/token.h"
#include "dedloc/base/fields.h"

namespace dedloc::admission {

inline constexpr const char* admission_method = "/dedloc/admission/1";
inline constexpr const char* revoked_method = "/dedloc/admission/1/revoked";

struct AdmissionQuestion {
    Digest run;
    Bytes code;
    Bytes token;
    DEDLOC_FIELDS(run, code, token)
};

// Also the file in which a peer keeps its token.
struct Admitted {
    Bytes token;
    std::optional<admission::Delegation> delegation;
    double now = 0;  // the organiser's wall clock
    DEDLOC_FIELDS(token, delegation, now)
};

struct RevocationsMessage {
    std::vector<Bytes> revocations;
    DEDLOC_FIELDS((revocations, admission::revoked_max))
};

}  // namespace dedloc::admission
