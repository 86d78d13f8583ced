// Acceptor: the voter in every trainer. Answers prepare and propose, and keeps its promises on disk
// before it says them.
//
// A voter votes for a commit only when it stands on the state the step starts from and holds every
// averaged byte (it asks Averages, which fetch what is missing), so that a certificate means: a
// majority can apply it. A voter that lost its disk has another incarnation and is silent until a
// certificate names it.
//
// File "votes": records of u32 LE length ‖ encode({1 incarnation, 2 AcceptorRecord}), the last
// whole one counts.
// Cost: one durable append a promise and a vote. Lifetime: stop() before destruction.
// Thread: the network thread.

#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "dedloc/base/token_bucket.h"
#include "dedloc/consensus/environment.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::consensus {

// A disk that is full or read-only for no longer than that is a matter of a moment.
inline constexpr Duration disk_failure_of_a_moment = 30s;
inline constexpr Duration disk_tried_again_after = 2s;
inline constexpr Duration disk_hangs_after = 2s;  // a write of some hundred bytes

class Acceptor {
  public:
    // Reads the votes file, or begins one with a fresh incarnation.
    static Result<std::unique_ptr<Acceptor>> open(const ConsensusEnvironment& environment);

    Task<void> stop() { return scope_.stop(); }
    std::uint64_t incarnation() const { return incarnation_; }
    // This peer proposed what no honest one would, and may not lead the open step any more.
    bool has_offended(const PeerId& proposer) const;
    bool may_vote() const;                                 // for the ledger's open instance
    bool may_lead() const;                                 // and can write its own vote down
    std::uint32_t promised(const Digest& previous) const;  // the highest ballot; 0: none

    Task<ConsensusReply> on_prepare(PeerId from, Prepare prepare);
    Task<ConsensusReply> on_propose(PeerId from, Propose propose);
    // Says so when a write has not come back for long. To be called now and then.
    void check_disk();
    // Since when our own clock says that a round is wanted and none was committed; for branches.
    void round_wanted_since(std::optional<TimePoint> since) { wanted_since_ = since; }
    // We have said that we leave: that the next decision takes our vote is right.
    void set_leaving(bool leaving) { leaving_ = leaving; }
    // This peer alone begins the run, after the newest certificate.
    void begin_run() { paxos_.begin_after(environment_.ledger.base().previous); }
    // Certificates a reply carries for one who lags.
    std::vector<Bytes> certificates_after(const Digest& previous) const;

  private:
    Acceptor(const ConsensusEnvironment& environment,
             std::uint64_t incarnation,
             AcceptorRecord record);
    Task<Result<void>> persist();
    Task<Result<void>> write_record();
    void tell_of_disk(const Result<void>& written);
    void tell_that_it_goes_on(Duration failing, const std::string& why);
    Task<void> write_again();
    // Refuses what no honest proposer would say.
    ConsensusReply accuse(const PeerId& proposer, std::string why);
    // Voters, or members of a plan.
    bool names_us(const auto& all) const {
        return std::ranges::any_of(all, [this](const auto& one) {
            return one.peer == environment_.me() && one.incarnation == incarnation_;
        });
    }
    bool drops_us(const Decision& decision) const;
    Task<std::optional<ConsensusReply>> check_orders(PeerId from, Decision decision);
    bool drops_most(const Decision& decision) const;
    // Errors as a reply; nullopt: the value may be voted for.
    Task<std::optional<ConsensusReply>> check_value(PeerId from, Decision decision);
    Task<std::optional<ConsensusReply>> check_commit(PeerId from,
                                                     Decision decision,
                                                     std::shared_ptr<const RoundPlan> plan);
    std::optional<ConsensusReply> check_members(const PeerId& from,
                                                const Decision& decision,
                                                const RoundPlan& plan);
    std::optional<ConsensusReply> check_parts(const PeerId& from,
                                              const Decision& decision,
                                              const RoundPlan& plan);
    std::optional<ConsensusReply> check_branch(const PeerId& from, const Decision& decision) const;
    // Does the asker stand where we stand?
    std::optional<ConsensusReply> compare(const PeerId& from,
                                          const Digest& previous,
                                          const Instance& instance) const;
    Task<void> wait_for_state();

    // The proposers of the open step.
    struct Turn {
        Digest previous;
        std::set<PeerId> offenders;               // voters that have offended
        std::map<PeerId, TokenBucket> ballots{};  // of voters
    };
    Turn& turn();
    bool bids_too_often(const PeerId& proposer);

    const ConsensusEnvironment& environment_;
    std::uint64_t incarnation_;
    PaxosAcceptor paxos_;
    std::size_t file_bytes_ = 0;
    std::uint64_t version_ = 0;  // of the record in memory …
    std::uint64_t durable_ = 0;  // … and on disk
    std::optional<TimePoint> writing_since_;
    runtime::Event written_;
    std::optional<TimePoint> disk_fails_since_;
    bool tries_again_ = false;
    bool told_that_it_goes_on_ = false;  // to fail
    std::optional<TimePoint> wanted_since_;
    Turn turn_;
    bool leaving_ = false;
    runtime::Scope scope_;
};

// The place of the proposer of `ballot`, as the leader order of `base` says.
bool owns_ballot(const Base& base, const PeerId& proposer, std::uint32_t ballot);
// Are as many of its next voters voters of `base` as decide there?
bool names_quorum(const Decision& decision, const Base& base);

}  // namespace dedloc::consensus
