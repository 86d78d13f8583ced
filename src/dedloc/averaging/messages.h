// Peers say these to each other about a round before it is decided (docs/spec/round.md):
// field lists in protobuf's wire format. Both methods are calls.

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dedloc/allreduce/messages.h"
#include "dedloc/base/fields.h"
#include "dedloc/base/time.h"
#include "dedloc/consensus/messages.h"
#include "dedloc/links/reachability.h"

namespace dedloc::averaging {

inline constexpr std::size_t aggregators_max = 16;  // of one plan; further ones are told so

inline constexpr const char* announce_method = "/dedloc/round/1/announce";
inline constexpr const char* plan_method = "/dedloc/round/1/plan";

struct Announce {
    consensus::Instance instance;
    Digest previous;  // digest of the latest decision the member knows
    Digest state;     // hash of the state it stands on
    std::uint64_t incarnation = 0;
    consensus::MemberInput input;
    double upload_bytes_per_s = 0;  // 0: not measured yet
    double download_bytes_per_s = 0;
    bool dialable = false;
    bool leaving = false;             // takes part once more, but does not vote afterwards
    std::vector<PeerId> unreachable;  // live, they say, but we cannot connect
    bool aggregator = false;          // brings nothing, stands on no state, offers to own parts
    bool checks = false;              // offers to compute others' contributions again

    DEDLOC_FIELDS(instance,
                  previous,
                  state,
                  incarnation,
                  input,
                  upload_bytes_per_s,
                  download_bytes_per_s,
                  dialable,
                  leaving,
                  (unreachable, links::unreachable_max),
                  aggregator,
                  checks)
};

// A peer for which a leader has no room asks it again after so long, in case somebody leaves.
inline constexpr Duration full_round_pause = std::chrono::seconds(2);

enum class AnnounceResult : std::uint32_t {
    accepted = 0,
    redirect = 1,        // `leader` is the one to ask
    you_are_behind = 2,  // `certificates` follow yours, or none if yours is too old or foreign
    i_am_behind = 3,     // the asked one does not know your latest certificate
    refused = 4,         // `reason` says why
    full = 5,            // the round has as many members as it may: it goes on without the asker
};

struct AnnounceReply {
    AnnounceResult result = AnnounceResult::accepted;
    PeerId leader;
    std::vector<Bytes> certificates;
    std::string reason;
    std::uint32_t round_ms = 0;  // of a round that is under way; who is not in it knows how long

    DEDLOC_FIELDS(result, leader, (certificates, consensus::certificates_max), reason, round_ms)
};

}  // namespace dedloc::averaging
