// Peers say these to each other to decide a step (docs/spec/round.md): field lists in
// protobuf's wire format. All methods are calls.
//
// Bytes that are signed or hashed travel as opaque fields, so that nobody re-encodes them.

#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/consensus/plan.h"
#include "dedloc/consensus/protection.h"
#include "dedloc/robust/orders.h"
#include "dedloc/wire/message.h"

namespace dedloc::consensus {

inline constexpr std::size_t certificates_max = 64;  // in one reply
inline constexpr std::size_t certificate_bytes_max = 2u << 20;

inline constexpr const char* prepare_method = "/dedloc/round/1/prepare";
inline constexpr const char* propose_method = "/dedloc/round/1/propose";
inline constexpr const char* certificate_method = "/dedloc/round/1/certificate";
inline constexpr const char* certified_method = "/dedloc/round/1/certified";
inline constexpr const char* certificates_method = "/dedloc/round/1/certificates";

// A trainer that may vote. A process that lost its memory of votes comes back with another
// incarnation and does not vote until a certificate names that one.
struct Voter {
    PeerId peer;
    std::uint64_t incarnation = 0;
    bool dialable = false;  // those who are lead before those who are not

    friend bool operator==(const Voter&, const Voter&) = default;
    DEDLOC_FIELDS(peer, incarnation, dialable)
};

enum class DecisionKind : std::uint32_t {
    commit = 0,
    abort = 1,    // the next attempt begins, with next_voters
    branch = 2,   // quorum was lost: the survivors, all of them signing, go on as a new branch
    genesis = 3,  // the host begins the run
};

struct Decision {
    DecisionKind kind = DecisionKind::commit;
    Digest run;
    Instance instance;                // of a branch: its new id, the step, attempt 0
    Digest previous;                  // digest of the decision before it
    Digest state_before;              // the state the step starts from
    Bytes plan;                       // commit: the plan's payload
    std::vector<FinishedPart> parts;  // commit: one a range, in the plan's order
    std::vector<Voter> next_voters;   // sorted
    double branch_samples = 0;        // committed up to and with this decision
    std::uint64_t number = 0;         // of this decision in its chain: previous number + 1
    // All that are in force from the next step on, carried from decision to decision. Sorted.
    std::vector<robust::Order> orders{};
    // In a commit of a robust run: the digest of what proves its averages
    // (averaging/round_proof.h).
    Digest proof{};
    // A robust run carries who is at work, the newest steps, this one's size (protection.h).
    std::vector<Standing> standings{};
    std::vector<StepSize> sizes{};
    StepSize size{};

    DEDLOC_FIELDS(kind,
                  run,
                  instance,
                  previous,
                  state_before,
                  plan,
                  (parts, parts_max),
                  (next_voters, members_max),
                  branch_samples,
                  number,
                  (orders, robust::orders_max),
                  proof,
                  (standings, members_max),
                  (sizes, sizes_max),
                  size)
};

struct Vote {
    PeerId voter;
    Bytes signature;  // domain "dedloc-vote", over (decision digest, ballot)

    DEDLOC_FIELDS(voter, signature)
};

struct Certificate {
    Bytes decision;
    std::uint32_t ballot = 0;
    std::vector<Vote> votes;

    DEDLOC_FIELDS(decision, ballot, (votes, members_max))
};

struct Prepare {
    Instance instance;
    Digest previous;
    std::uint32_t ballot = 0;

    DEDLOC_FIELDS(instance, previous, ballot)
};

struct Propose {
    std::uint32_t ballot = 0;
    Bytes decision;
    // A commit may come without its plan and its parts instead (compact_proposal.h).
    Bytes compact_decision;
    Digest plan;    // of the plan
    Digest digest;  // of the whole decision

    DEDLOC_FIELDS(ballot, decision, compact_decision, plan, digest)
};

// A certificate for who was sent the proposal. An error: send it whole (certificate_method).
struct Certified {
    Digest decision;
    std::uint32_t ballot = 0;
    std::vector<Vote> votes;

    DEDLOC_FIELDS(decision, ballot, (votes, members_max))
};

enum class Answer : std::uint32_t {
    yes = 0,
    outbid = 1,          // promised a higher ballot: `ballot` says which
    you_are_behind = 2,  // `certificates` follow
    i_am_behind = 3,
    may_not_vote = 4,  // lost its memory of votes, or is no voter
    refused = 5,       // the value is wrong or its bytes cannot be had: `reason`
    send_whole = 6,    // the voter has other averages than the compact decision names
};

// Reply to prepare and to propose.
struct ConsensusReply {
    Answer answer = Answer::yes;
    std::uint32_t ballot = 0;   // outbid: the promised one
    bool has_accepted = false;  // prepare, yes: what was accepted before
    std::uint32_t accepted_ballot = 0;
    Bytes accepted_decision;
    Bytes signature;  // propose, yes: the vote
    std::vector<Bytes> certificates;
    std::string reason;

    DEDLOC_FIELDS(answer,
                  ballot,
                  has_accepted,
                  accepted_ballot,
                  accepted_decision,
                  signature,
                  (certificates, certificates_max),
                  reason)
};

// "Which certificates follow `previous`?" An empty reply: it is the latest, or not known here.
struct CertificatesRequest {
    Digest previous;
    bool only_latest = false;

    DEDLOC_FIELDS(previous, only_latest)
};

struct CertificatesReply {
    std::vector<Bytes> certificates;
    bool known = false;  // `previous` is in the chain of the asked one

    DEDLOC_FIELDS((certificates, certificates_max), known)
};

}  // namespace dedloc::consensus
