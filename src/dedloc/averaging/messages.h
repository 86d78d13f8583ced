// What peers say to each other in a round (DESIGN §5, docs/spec/round.md), as field lists in
// protobuf's wire format. Methods are calls unless "stream" is said.
//
// Bytes that are signed or hashed travel as opaque `payload` fields, so that nobody re-encodes
// them.

#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/averaging/contribution.h"
#include "dedloc/base/bits.h"
#include "dedloc/base/bytes.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/base/shared_bytes.h"
#include "dedloc/links/reachability.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {

// Of one plan, aggregators among them. Whoever comes beyond them is told so (Verdict::full), keeps
// up with the run and computes for nothing until somebody leaves; voters have their places first.
inline constexpr std::size_t members_max = 256;
inline constexpr std::size_t aggregators_max = 16;  // of one plan; further ones are told so
inline constexpr std::size_t parts_max = 8192;      // of one plan
// Of one part, as it travels. A part costs a signature, and a check of it by everybody, so short
// ones are dear where lines are fast; 2^20 elements of 8 bit with their scales fit.
inline constexpr std::size_t part_bytes_max = (1u << 20) + (16u << 10);
inline constexpr std::size_t certificates_max = 64;  // in one reply
inline constexpr std::size_t certificate_bytes_max = 2u << 20;

inline constexpr const char* announce_method = "/dedloc/round/1/announce";
inline constexpr const char* plan_method = "/dedloc/round/1/plan";
inline constexpr const char* repair_method = "/dedloc/round/1/repair";
inline constexpr const char* parts_method = "/dedloc/round/1/parts";  // stream
inline constexpr const char* fetch_method = "/dedloc/round/1/fetch";
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
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.peer);
        visit(2, self.incarnation);
        visit(3, self.dialable);
    }
};

// One single-decree consensus: at most one decision is ever certified for it.
struct Instance {
    Digest branch;
    std::uint64_t step = 0;
    std::uint32_t attempt = 0;

    friend bool operator==(const Instance&, const Instance&) = default;
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.branch);
        visit(2, self.step);
        visit(3, self.attempt);
    }
};

struct Announce {
    Instance instance;
    Digest previous;  // digest of the latest decision the member knows
    Digest state;     // hash of the state it stands on
    std::uint64_t incarnation = 0;
    MemberInput input;
    double upload_bytes_per_s = 0;  // 0: not measured yet
    double download_bytes_per_s = 0;
    bool dialable = false;
    bool leaving = false;             // takes part once more, but does not vote afterwards
    std::vector<PeerId> unreachable;  // live, they say, but we cannot connect
    bool aggregator = false;          // brings nothing, stands on no state, offers to own parts

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.instance);
        visit(2, self.previous);
        visit(3, self.state);
        visit(4, self.incarnation);
        visit(5, self.input);
        visit(6, self.upload_bytes_per_s);
        visit(7, self.download_bytes_per_s);
        visit(8, self.dialable);
        visit(9, self.leaving);
        visit(10, self.unreachable, links::unreachable_max);
        visit(11, self.aggregator);
    }
};

enum class Verdict : std::uint32_t {
    accepted = 0,
    redirect = 1,        // `leader` is the one to ask
    you_are_behind = 2,  // `certificates` follow yours, or none if yours is too old or foreign
    i_am_behind = 3,     // the asked one does not know your latest certificate
    refused = 4,         // `reason` says why
    full = 5,            // the round has as many members as it may: it goes on without the asker
};

struct AnnounceReply {
    Verdict verdict = Verdict::accepted;
    PeerId leader;
    std::vector<Bytes> certificates;
    std::string reason;
    std::uint32_t round_ms = 0;  // of a round that is under way; who is not in it knows how long

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.verdict);
        visit(2, self.leader);
        visit(3, self.certificates, certificates_max);
        visit(4, self.reason);
        visit(5, self.round_ms);
    }
};

struct PlanMember {
    PeerId peer;
    std::uint64_t incarnation = 0;
    MemberInput input;
    bool dialable = false;
    bool aggregator = false;  // only reduces: brings nothing, gets no averages, never votes

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.peer);
        visit(2, self.incarnation);
        visit(3, self.input);
        visit(4, self.dialable);
        visit(5, self.aggregator);
    }
};

struct PlanPart {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    std::uint32_t owner = 0;  // index into members
    // Where it is not the plan's, because codecs are chosen by tensor.
    std::optional<std::uint32_t> codec{};

    ElementRange range() const { return {offset, count}; }
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.offset);
        visit(2, self.count);
        visit(3, self.owner);
        visit(4, self.codec);
    }
};

struct Plan {
    Digest run;
    Instance instance;
    std::uint32_t ballot = 0;
    PeerId leader;
    Digest previous;
    Digest state;
    std::uint32_t codec = 0;
    std::vector<PlanMember> members;     // sorted by PeerId: the order of the sums
    std::vector<PlanPart> parts;         // cover the vector in order
    std::vector<std::uint32_t> standby;  // members that take over parts, in this order
    std::uint32_t reduce_ms = 0;         // durations from receipt
    std::uint32_t round_ms = 0;
    std::uint32_t predicted_ms = 0;  // what the lines as they were announced allow
    // A grid (routes.h): whom repair 0 goes through. 0 groups: members send to the owners.
    std::uint32_t groups = 0;
    std::vector<std::uint32_t> group_of;    // one a member
    std::vector<std::uint32_t> collectors;  // members: column k's of group g at [k * groups + g]
    // Trainers whose contributions this round does without, as their lines are too slow for what
    // they bring, rising. Those who are members all the same only receive.
    std::vector<PeerId> left_out;

    bool leaves_out(const PeerId& peer) const {
        return std::binary_search(left_out.begin(), left_out.end(), peer);
    }

    std::uint32_t codec_of(const PlanPart& part) const { return part.codec.value_or(codec); }
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.run);
        visit(2, self.instance);
        visit(3, self.ballot);
        visit(4, self.leader);
        visit(5, self.previous);
        visit(6, self.state);
        visit(7, self.codec);
        visit(8, self.members, members_max);
        visit(9, self.parts, parts_max);
        visit(10, self.standby, members_max);
        visit(11, self.reduce_ms);
        visit(12, self.round_ms);
        visit(13, self.groups);
        visit(14, self.group_of, members_max);
        visit(15, self.collectors, members_max);
        visit(16, self.left_out, members_max);
        visit(17, self.predicted_ms);
    }
};

// A payload with its author's signature (domain: which message it is).
struct Signed {
    Bytes payload;
    Bytes signature;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.payload);
        visit(2, self.signature);
    }
};

inline constexpr std::uint32_t repairs_max = 3;  // of one round

// Parts whose owner failed get new owners; contributors send again.
struct Repair {
    Digest plan;
    std::uint32_t number = 0;  // 1, 2, …
    std::vector<std::uint32_t> parts;
    std::vector<std::uint32_t> owners;  // same length

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.plan);
        visit(2, self.number);
        visit(3, self.parts, parts_max);
        visit(4, self.owners, parts_max);
    }
};

// First message of a parts stream, from a member to an owner or to the collector of its group;
// PartData messages follow, and FinishedPart messages come back as they are ready.
struct PartsHeader {
    Digest plan;
    std::uint32_t repair = 0;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.plan);
        visit(2, self.repair);
    }
};

// What is large in a message is a view of the message's bytes, and its last field.
inline constexpr std::uint32_t body_field = 2;
// A message may be so much larger than its body; a kept body keeps its whole message in memory.
inline constexpr std::size_t around_body_bytes_max = 4096;

// A message with a body, which stays a view of `whole`. Errors: peer_broke_protocol.
template <typename T>
Result<T> decode_with_body(const SharedBytes& whole) {
    auto message = wire::decode<T>(*whole);
    if (!message || whole->size() > message->encoded.size() + around_body_bytes_max)
        return make_error(ErrorKind::peer_broke_protocol, "a part that cannot be read");
    return message;
}

struct PartData {
    std::uint32_t part = 0;
    // In a grid, from the collector of another group: bit i: member i's contribution is in this
    // sum, which is fp32 and not scaled. None: nobody of its group brought one.
    Bytes included;
    ByteView encoded;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.part);
        visit(3, self.included);
        visit(body_field, self.encoded);
    }
};

// What an owner signs about one reduced range. Domain "dedloc-part", over the fields below.
struct FinishedPart {
    Digest plan;
    std::uint32_t part = 0;
    std::uint32_t repair = 0;
    std::uint32_t owner = 0;  // index into the plan's members
    Bytes included;           // bits: whose contributions are in it
    Digest digest;            // SHA-256 of the encoded average
    Bytes signature;

    bool includes(std::size_t member) const { return base::has_bit(included, member); }
    Bytes signed_bytes() const;
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.plan);
        visit(2, self.part);
        visit(3, self.repair);
        visit(4, self.owner);
        visit(5, self.included);
        visit(6, self.digest);
        visit(7, self.signature);
    }
};

struct FinishedPartData {
    FinishedPart header;
    // From an owner: what it had got from the receiver of this message when it wrote it, and how
    // long after that one's header. 0 from anybody else.
    std::uint64_t received_bytes = 0;
    std::uint64_t received_us = 0;
    ByteView encoded;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.header);
        visit(3, self.received_bytes);
        visit(4, self.received_us);
        visit(body_field, self.encoded);
    }
};

// By digest, or (plan, part) when only those are known.
struct Fetch {
    Digest digest;
    Digest plan;
    std::uint32_t part = 0;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.digest);
        visit(2, self.plan);
        visit(3, self.part);
    }
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

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.kind);
        visit(2, self.run);
        visit(3, self.instance);
        visit(4, self.previous);
        visit(5, self.state_before);
        visit(6, self.plan);
        visit(7, self.parts, parts_max);
        visit(8, self.next_voters, members_max);
        visit(9, self.branch_samples);
        visit(10, self.number);
    }
};

struct Vote {
    PeerId voter;
    Bytes signature;  // domain "dedloc-vote", over (decision digest, ballot)

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.voter);
        visit(2, self.signature);
    }
};

struct Certificate {
    Bytes decision;
    std::uint32_t ballot = 0;
    std::vector<Vote> votes;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.decision);
        visit(2, self.ballot);
        visit(3, self.votes, members_max);
    }
};

struct Prepare {
    Instance instance;
    Digest previous;
    std::uint32_t ballot = 0;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.instance);
        visit(2, self.previous);
        visit(3, self.ballot);
    }
};

struct Propose {
    std::uint32_t ballot = 0;
    Bytes decision;
    // Why a voter should believe a re-proposal needs no argument: promises are checked by the
    // proposer; a voter only follows its own record.
    // Instead of the decision, of a commit (outline.h): without its plan and its parts.
    Bytes outline;
    Digest plan;    // of the plan
    Digest digest;  // of the whole decision

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.ballot);
        visit(2, self.decision);
        visit(3, self.outline);
        visit(4, self.plan);
        visit(5, self.digest);
    }
};

// A certificate for who was sent the proposal. An error: send it whole (certificate_method).
struct Certified {
    Digest decision;
    std::uint32_t ballot = 0;
    std::vector<Vote> votes;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.decision);
        visit(2, self.ballot);
        visit(3, self.votes, members_max);
    }
};

enum class Answer : std::uint32_t {
    yes = 0,
    outbid = 1,          // promised a higher ballot: `ballot` says which
    you_are_behind = 2,  // `certificates` follow
    i_am_behind = 3,
    may_not_vote = 4,  // lost its memory of votes, or is no voter
    refused = 5,       // the value is wrong or its bytes cannot be had: `reason`
    send_whole = 6,    // the outline names other averages than the voter has: send the decision
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

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.answer);
        visit(2, self.ballot);
        visit(3, self.has_accepted);
        visit(4, self.accepted_ballot);
        visit(5, self.accepted_decision);
        visit(6, self.signature);
        visit(7, self.certificates, certificates_max);
        visit(8, self.reason);
    }
};

// "Which certificates follow `previous`?" An empty reply: it is the latest, or not known here.
struct CertificatesRequest {
    Digest previous;
    bool only_latest = false;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.previous);
        visit(2, self.only_latest);
    }
};

struct CertificatesReply {
    std::vector<Bytes> certificates;
    bool known = false;  // `previous` is in the chain of the asked one

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.certificates, certificates_max);
        visit(2, self.known);
    }
};

}  // namespace dedloc::averaging
