// Members of a robust round say these to each other between the averages and the decision
// (docs/spec/round.md, 5a), as field lists in protobuf's wire format. All methods are
// calls.
//
//   reveal   member → leader    it holds every average, and reveals its nonce
//   draw     leader → member    all commitments and nonces, and the averages they are about; the
//                               answer: the member's signed rows
//   table    leader → member    all answers; the answer: what the member has to object
//   answer   anybody → member   its nonce or its answer to a draw, where the leader got none
//   input    anybody → member   a part of a contribution, from its author or its owner
//   evidence anybody → anybody  a piece of the evidence for an order, or of a proof, by its digest
//
// Bytes that are signed travel as opaque payloads, so that nobody re-encodes them.

#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "dedloc/allreduce/commitment.h"
#include "dedloc/base/fields.h"
#include "dedloc/consensus/messages.h"

namespace dedloc::averaging {

inline constexpr const char* reveal_method = "/dedloc/round/1/reveal";
inline constexpr const char* draw_method = "/dedloc/round/1/draw";
inline constexpr const char* table_method = "/dedloc/round/1/table";
inline constexpr const char* answer_method = "/dedloc/round/1/answer";
inline constexpr const char* input_method = "/dedloc/round/1/input";
inline constexpr const char* evidence_method = "/dedloc/round/1/evidence";

inline constexpr std::string_view answer_domain = "dedloc-answer";
inline constexpr std::string_view accusation_domain = "dedloc-accusation";
inline constexpr std::string_view testimony_domain = "dedloc-testimony";

// A payload with the signature of a member of the plan.
struct SignedBy {
    std::uint32_t member = 0;
    Bytes payload;
    Bytes signature;

    DEDLOC_FIELDS(member, payload, signature)
};

struct Reveal {
    Digest plan;
    std::uint32_t member = 0;
    allreduce::Commitment commitment;
    Digest nonce;

    DEDLOC_FIELDS(plan, member, commitment, nonce)
};

// The joint draw of a round. Its digest is in what members answer.
struct DrawMessage {
    Digest plan;
    std::vector<consensus::FinishedPart> parts;  // one a part of the plan: the averages it is about
    std::vector<Reveal> reveals;                 // in the order of members; `plan` is not repeated

    DEDLOC_FIELDS(plan, (parts, consensus::parts_max), (reveals, consensus::members_max))
};

// A member's rows (robust/rows.h), one an owner. Signed.
struct Answer {
    Digest draw;
    Bytes rows;

    DEDLOC_FIELDS(draw, rows)
};

// "That member's row about my parts is not the row of what it sent me." Signed by an owner.
struct Accusation {
    Digest draw;
    std::uint32_t accused = 0;

    DEDLOC_FIELDS(draw, accused)
};

enum class Observation : std::uint32_t {
    kept_back = 0,     // twice in a row it gave neither the leader nor me what the round needs
    contradicted = 1,  // what it sent me is not what it committed to
    unshown = 2,       // neither it nor the owner shows me this part
    unanswered = 3,    // twice in a row it computed nothing of what it was drawn to check
};

// One voter saw this, where no number proves it: as several say the same, one of them is honest.
struct Testimony {
    Digest plan;
    Observation observation = Observation::kept_back;
    std::uint32_t subject = 0;
    std::uint32_t part = 0;   // unshown …
    std::uint32_t owner = 0;  // … by this owner

    friend bool operator==(const Testimony&, const Testimony&) = default;
    DEDLOC_FIELDS(plan, observation, subject, part, owner)
};

struct SecondCommitment {
    std::uint32_t member = 0;
    allreduce::Commitment commitment;

    DEDLOC_FIELDS(member, commitment)
};

// Answers draw, table and unshown inputs: whatever the member has to say.
struct Objections {
    std::vector<SignedBy> answer;       // one, to a draw; those that it was given, to a table
    std::vector<Reveal> reveals;        // the same, of nonces
    std::vector<SignedBy> accusations;  // to a table
    std::vector<SignedBy> testimonies;
    std::vector<SecondCommitment> commitments;  // other ones than the draw's

    DEDLOC_FIELDS((answer, consensus::members_max),
                  (accusations, consensus::members_max),
                  (testimonies, consensus::members_max),
                  (commitments, consensus::members_max),
                  (reveals, consensus::members_max))
};

// The draw and all answers to it: what a decision's `proof` is the digest of.
struct Proof {
    DrawMessage draw;
    std::vector<SignedBy> answers;  // in the order of members

    DEDLOC_FIELDS(draw, (answers, consensus::members_max))
};

// To who holds the draw already.
struct Table {
    Digest plan;
    Digest draw;  // zero: there is none yet, nonces are missing
    std::vector<SignedBy> answers;
    std::vector<std::uint32_t> missing;  // who gave the leader nothing; the asked one is to ask
    // A part that the asker could not get; the asked one is to try.
    std::vector<Testimony> unshown;

    DEDLOC_FIELDS(plan,
                  draw,
                  (answers, consensus::members_max),
                  (missing, consensus::members_max),
                  (unshown, 1))
};

struct AskAnswer {
    Digest plan;
    std::vector<DrawMessage> draw;  // one; none: only the nonce is asked for

    DEDLOC_FIELDS(plan, (draw, 1))
};

struct AskInput {
    Digest plan;
    std::uint32_t part = 0;
    std::uint32_t member = 0;

    DEDLOC_FIELDS(plan, part, member)
};

struct ShownInput {
    std::uint32_t part = 0;
    std::uint32_t member = 0;
    std::vector<Digest> path;
    Bytes encoded;

    DEDLOC_FIELDS(part, member, (path, allreduce::path_max), encoded)
};

struct AskEvidence {
    Digest digest;
    std::uint64_t offset = 0;

    DEDLOC_FIELDS(digest, offset)
};

struct EvidencePiece {
    std::uint64_t size = 0;  // of the whole
    Bytes piece;

    DEDLOC_FIELDS(size, piece)
};

}  // namespace dedloc::averaging
