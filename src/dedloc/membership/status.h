// Status: what a peer says about itself, signed, and pushed to those it is connected to.
//
// Claims are bounded by who reads them: samples by the peer's plausible speed × time.
// Wire: /dedloc/status/1 (membership.h).

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/base/peer_id.h"

namespace dedloc::membership {

enum class Role : std::uint32_t {
    trainer = 0,
    aggregator = 1,
    observer = 2,
    relay = 3,
    expert_server = 4,
};
enum class Phase : std::uint32_t {
    starting = 0,
    downloading = 1,
    computing = 2,
    averaging = 3,
    waiting = 4,
    leaving = 5,
};
std::string_view to_string(Role role);
std::string_view to_string(Phase phase);

inline constexpr std::size_t status_addresses_max = 16;
// A name is UTF-8, where a letter takes up to four.
inline constexpr std::size_t status_name_bytes_max = 96;
// Known to one peer: as many as a round has members, and as many again who help, watch or wait for
// room in one. Whoever comes beyond them is told so at hello.
inline constexpr std::size_t peers_max = 512;
// No model that learns has a loss beyond it, and sums of some such stay finite.
inline constexpr double loss_told_max = 1e6;

struct Status {
    PeerId peer;
    std::uint64_t incarnation = 0;  // random at the peer's start (or kept with its votes)
    // Grows with every status of an incarnation, over restarts as well: each process begins at the
    // milliseconds of its wall clock.
    std::uint64_t sequence = 0;
    Role role = Role::trainer;
    Phase phase = Phase::starting;
    Digest branch;
    std::uint64_t step = 0;     // global steps committed and applied
    Digest certificate;         // digest of the latest certificate it applied
    double branch_samples = 0;  // committed on this branch, by the latest certificate it knows
    Digest state_hash;
    std::uint64_t samples = 0;  // accumulated towards the next step
    double samples_per_s = 0;   // measured
    // Measured duration of one gradient computation: while it computes, of the last one; when it
    // has handed in, of the quickest, by which its claims are judged.
    double micro_batch_s = 0;
    double loss = 0;      // mean of the running step
    double accuracy = 0;  // of the last evaluation it made; 0 = none
    std::uint64_t accuracy_step = 0;
    double progress = 0;            // of a download, 0..1
    double upload_bytes_per_s = 0;  // measured, 0 = unknown
    double download_bytes_per_s = 0;
    double round_trip_s = 0;  // to those it is connected to, the middle one; 0 = unknown
    std::uint64_t committed_samples = 0;  // of this peer, in certificates it has seen
    bool dialable = false;
    std::vector<std::string> addresses;
    std::string name;  // for people: host name or what the user chose, ≤ status_name_bytes_max
    std::string version;
    bool lets_in = false;  // an organiser's: it renews tokens

    // Others would decide nothing else by `later`, which it says a moment after this: what grows
    // while it computes they extrapolate (BatchProgress).
    bool says_as_much_as(const Status& later) const;

    // The peer has no state yet.
    bool is_newcomer() const { return phase == Phase::starting || phase == Phase::downloading; }
    // A trainer that has the state its newest certificate leads to.
    bool has_state() const { return role == Role::trainer && !certificate.is_zero(); }
    // The peer works towards a step: not one that rests, downloads or leaves.
    bool is_training() const {
        return role == Role::trainer && (phase == Phase::computing || phase == Phase::averaging);
    }

    DEDLOC_FIELDS(peer,
                  incarnation,
                  sequence,
                  role,
                  phase,
                  branch,
                  step,
                  certificate,
                  branch_samples,
                  state_hash,
                  samples,
                  samples_per_s,
                  micro_batch_s,
                  loss,
                  accuracy,
                  accuracy_step,
                  progress,
                  upload_bytes_per_s,
                  download_bytes_per_s,
                  committed_samples,
                  dialable,
                  (addresses, status_addresses_max),
                  name,
                  version,
                  round_trip_s,
                  lets_in)
};

}  // namespace dedloc::membership
