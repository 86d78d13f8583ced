// The consensus of one decision as a pure state machine: single-decree Paxos among the voters of
// the previous certificate. No clock, no network, no disk, so that the simulator can torture it
// alone (paxos_test.cpp) and whole (tests/sim).
//
// PaxosAcceptor: a voter's memory. Every record it changes must be durable before the answer
// leaves. Tally: what a proposer has heard in one ballot.
//
// Ballot b of an instance belongs to the voter at place b mod n of the leader order; ballot 0 needs
// no promises, because nobody can have accepted anything in a lower one.
//
// Source: Lamport, "Paxos Made Simple"; docs/spec/round.md. Thread: any.

#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "dedloc/base/fields.h"
#include "dedloc/consensus/messages.h"
#include "dedloc/consensus/planted_bugs.h"

namespace dedloc::consensus {

// Higher ones are nobody's: a voter that asked for the last there is would leave the others none.
inline constexpr std::uint32_t ballot_max = 1u << 24;

// A voter remembers so many questions that it went on from.
inline constexpr std::size_t passed_max = 64;

// A question is open after one decision, `previous`, in one history; a run that was resumed from an
// older checkpoint has the same instances once more, in another.
struct AcceptorRecord {
    Instance instance;
    Digest previous;
    std::uint32_t promised = 0;
    bool has_accepted = false;
    std::uint32_t accepted_ballot = 0;
    Bytes accepted_decision;
    std::vector<Digest> passed;  // questions answered before this one, their `previous`

    friend bool operator==(const AcceptorRecord&, const AcceptorRecord&) = default;
    DEDLOC_FIELDS(
        instance, promised, has_accepted, accepted_ballot, accepted_decision, previous, passed)
};

class PaxosAcceptor {
  public:
    PaxosAcceptor() = default;
    PaxosAcceptor(AcceptorRecord record, PlantedBugs bugs)
        : record_(std::move(record)), bugs_(bugs) {}

    const AcceptorRecord& record() const { return record_; }

    // Answers yes (with what was accepted before) or outbid. On yes the record may have changed:
    // make it durable, then answer. Another question than the record's begins a new record; the
    // caller asks only for the one that its ledger says is open. Refused: the voter went on from
    // that question before. A ledger may have been set back (a restarted process that loaded the
    // state of a peer that slept), and what was accepted is not remembered any more.
    ConsensusReply prepare(const Digest& previous, const Instance& instance, std::uint32_t ballot);

    // Answers yes (the caller signs the vote after the record is durable), outbid, or refused: a
    // second value in the same ballot is a proposer that forgot its first.
    ConsensusReply accept(const Digest& previous,
                          const Instance& instance,
                          std::uint32_t ballot,
                          const Bytes& decision);

    // A run begins after `previous`, by the word of the only voter there is: not a question that
    // others may have answered, even if it began with the same certificate before: what was
    // accepted then has lost its averages, and would be proposed again in vain.
    void begin_after(const Digest& previous) {
        std::erase(record_.passed, previous);
        if (record_.previous != previous) return;
        AcceptorRecord nothing;
        nothing.passed = std::move(record_.passed);
        record_ = std::move(nothing);
    }

  private:
    bool open(const Digest& previous, const Instance& instance);

    AcceptorRecord record_;
    PlantedBugs bugs_;
};

inline std::size_t majority(std::size_t voters) { return voters / 2 + 1; }
// As long as fewer than a third of the voters lie, two quorums have an honest one in common, who
// votes once under a ballot.
inline std::size_t quorum(std::size_t voters, bool some_lie) {
    return some_lie ? voters * 2 / 3 + 1 : majority(voters);
}

// The proposer's side of one ballot.
class Tally {
  public:
    Tally(std::vector<Voter> voters, PlantedBugs bugs, bool some_lie = false)
        : voters_(std::move(voters)), bugs_(bugs), some_lie_(some_lie) {}

    // Counts once per voter; strangers are ignored.
    void promise(const PeerId& voter, const ConsensusReply& reply);
    // This voter promises, but says to have accepted what no honest voter votes for. Without it,
    // so many of the others are enough that every quorum has an honest voter among them.
    void disown(const PeerId& voter);
    void vote(const PeerId& voter, Bytes signature);

    bool promised() const { return promises_.size() >= promises_needed(); }
    bool chosen() const { return votes_.size() >= needed(); }
    // After promised(): the value that must be proposed again, if any.
    const std::optional<Bytes>& value_to_keep() const { return value_; }
    std::vector<Vote> votes() const;
    std::size_t votes_count() const { return votes_.size(); }
    std::size_t needed() const;
    std::size_t promises_needed() const;

  private:
    bool is_voter(const PeerId& peer) const;

    std::vector<Voter> voters_;
    PlantedBugs bugs_;
    bool some_lie_;
    std::map<PeerId, bool> promises_;
    bool disowned_ = false;
    std::map<PeerId, Bytes> votes_;
    std::optional<Bytes> value_;
    std::uint32_t value_ballot_ = 0;
};

}  // namespace dedloc::consensus
