// BriefStatus: what has changed since a status that the other side has (its base), a quarter as
// long. Most of a status stays as it is for hours: who, where, which release; and a signature is
// for those whom others tell of it.
//
//   /dedloc/status/1/brief   BriefStatus -> BriefReply
//
// A number or digest that is as in the base is left out, which 0 stands for; what has become 0
// since needs a whole status.
//
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "dedloc/base/fields.h"
#include "dedloc/membership/status.h"

namespace dedloc::membership {

inline constexpr const char* brief_status_method = "/dedloc/status/1/brief";

struct BriefStatus {
    std::uint64_t base = 0;  // the sequence of the status that this amends
    std::uint64_t sequence = 0;
    Phase phase = Phase::starting;
    std::uint64_t step = 0;
    Digest certificate;
    Digest state_hash;
    std::uint64_t samples = 0;
    std::uint64_t committed_samples = 0;
    double branch_samples = 0;
    double samples_per_s = 0;
    double micro_batch_s = 0;
    double loss = 0;
    double progress = 0;
    double upload_bytes_per_s = 0;
    double download_bytes_per_s = 0;
    double round_trip_s = 0;

    DEDLOC_FIELDS(base,
                  sequence,
                  phase,
                  step,
                  certificate,
                  state_hash,
                  samples,
                  committed_samples,
                  branch_samples,
                  samples_per_s,
                  micro_batch_s,
                  loss,
                  progress,
                  upload_bytes_per_s,
                  download_bytes_per_s,
                  round_trip_s)
};

struct BriefReply {
    // The asked one has another base, or none: it wants a whole status.
    std::uint64_t wants_whole = 0;
    // Its own: brief if it may be, else whole and signed.
    std::vector<BriefStatus> brief;
    std::vector<Bytes> statuses;  // whole: its own, where `brief` has none; and perhaps another's

    DEDLOC_FIELDS(wants_whole, (brief, 1), (statuses, 2))
};

// None: what is new does not fit in, or the base is of another process.
std::optional<BriefStatus> shortened(const Status& status, const Status& base);
// None: it amends another status.
std::optional<Status> amended(const Status& base, const BriefStatus& brief);

}  // namespace dedloc::membership
