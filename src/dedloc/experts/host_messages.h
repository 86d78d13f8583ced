// Messages among dedloc's expert servers, beside hivemind's calls.
//
//   /dedloc/experts/1/alive   call  which experts a server serves, and how far each has come
//   /dedloc/experts/1/keep    call  "fetch this snapshot from me, and keep it"
//   /dedloc/experts/1/offer   call  which snapshot a keeper has of an expert
//   record "dedloc-experts:<grid>", subkey of the server, signed: what it can take (docs/dht.md)
//
// Errors: bad_input. Thread: any.

#pragma once
#include <string>
#include <vector>

#include "dedloc/base/fields.h"
#include "dedloc/experts/uid.h"
#include "dedloc/wire/message.h"

namespace dedloc::experts {

inline constexpr char alive_method[] = "/dedloc/experts/1/alive";
inline constexpr char keep_method[] = "/dedloc/experts/1/keep";
inline constexpr char offer_method[] = "/dedloc/experts/1/offer";

// In one answer; a server with more would be asked again for the rest.
inline constexpr std::size_t alive_experts_max = 8192;

struct AliveRequest {
    std::vector<std::string> uids;

    DEDLOC_FIELDS((uids, alive_experts_max))
};

struct AliveResponse {
    // As many as asked: updates + 1 of an expert that is served here, else 0.
    std::vector<std::uint64_t> updates;

    DEDLOC_FIELDS((updates, alive_experts_max))
};

struct KeepRequest {
    std::string uid;
    Digest root;
    std::uint64_t updates = 0;
    bool take_over = false;  // the server leaves: serve it from now on

    DEDLOC_FIELDS(uid, root, updates, take_over)
};

struct OfferRequest {
    std::string uid;

    DEDLOC_FIELDS(uid)
};

struct OfferResponse {
    Digest root;  // zeros: none
    std::uint64_t updates = 0;

    DEDLOC_FIELDS(root, updates)
};

// The payload of a server's signed record.
struct ServerRecordPayload {
    std::uint64_t experts_max = 0;
    std::uint64_t hosted = 0;
    std::uint64_t queue_ms = 0;
    double calls_per_s = 0;
    std::uint64_t failed = 0;  // calls that were refused or not computed, so far

    DEDLOC_FIELDS(experts_max, hosted, queue_ms, calls_per_s, failed)
};

}  // namespace dedloc::experts
