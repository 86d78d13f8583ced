// GradientValidators: this peer's share of the checks of a robust run (docs/robust-runs.md). Of
// each certified round the draw's seed says whose contributions are computed again, and by whom;
// what a validator finds it signs and tells everybody. Where it differs from what the author
// committed to, all voters compute the contribution again, and as many as it takes prove an order.
//
// A peer on probation for a mistake hands in nothing until it has computed three contributions
// of others rightly; its own are then checked like a newcomer's.
//
// Bounds: rounds_open_max rounds, CheckQueue::jobs_max jobs, findings_early_max findings that came
// before their round. Thread: the network thread; rows on workers; work_waits(): any.

#pragma once
#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "dedloc/allreduce/part_store.h"
#include "dedloc/averaging/evidence_store.h"
#include "dedloc/events/teller.h"
#include "dedloc/p2p/handlers.h"
#include "dedloc/robust/checks.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/validation/check_queue.h"
#include "dedloc/validation/gradient_recheck.h"
#include "dedloc/validation/silent_validators.h"

namespace dedloc::validation {

inline constexpr const char* finding_method = "/dedloc/robust/1/finding";
inline constexpr const char* silence_method = "/dedloc/robust/1/silence";
inline constexpr std::size_t rounds_open_max = 16;
inline constexpr std::size_t rounds_with_state = 3;   // of these the model is kept
inline constexpr std::uint64_t unanswered_after = 2;  // steps; then another one is asked
// Steps until an answer is missing, beside those in which the validator computes as much itself.
inline constexpr std::uint64_t missing_after = 3;
inline constexpr std::size_t findings_early_max = 512;
inline constexpr std::uint32_t right_before_it_returns = 3;  // after a mistake

struct ValidatorOptions {
    double check = 0;  // of all contributions
    double tolerance = 0;
    std::uint32_t right_needed = right_before_it_returns;
    allreduce::CenteredClipRule rule;
    bool stubborn = false;  // for tests: contributes although it is told that it errs
};

struct ValidatorHooks {
    std::function<void(robust::Order, Bytes evidence)> propose;
    std::function<std::vector<PeerId>()> audience;
    std::function<std::string(const PeerId&)> name_of;
};

class GradientValidators {
  public:
    GradientValidators(runtime::Node node,
                       p2p::Host& host,
                       const security::Signer& signer,
                       const security::Verifier& verifier,
                       const consensus::Ledger& ledger,
                       const allreduce::PartStore& parts,
                       averaging::EvidenceStore& evidence,
                       events::Teller& teller,
                       ValidatorOptions options,
                       ValidatorHooks hooks);

    void start();
    Task<void> stop();

    // A commit; `state`: the one that it began from. Voters have its proof; others fetch it if
    // they need it.
    void certified(const consensus::Decision& decision,
                   std::shared_ptr<const consensus::RoundPlan> plan,
                   std::shared_ptr<const state::Snapshot> state);
    // A voter that leaves without a reproach is no newcomer when it is back.
    void check_voters(const std::vector<consensus::Voter>& before);

    bool work_waits() const { return waiting_ > 0; }
    std::optional<CheckJob> take();
    Task<void> checked(CheckResult result);
    // This peer erred, and has yet to show that it does no more.
    bool holds_back() const { return holds_back_; }  // any thread
    void check_own_orders();

  private:
    struct OpenRecheck {
        OpenRecheck(robust::Recheck of) : book(std::move(of)) {}
        robust::Recheck book;
        std::map<PeerId, averaging::SignedBy> findings;
        std::vector<averaging::SignedBy> not_asked;  // findings of members that may be later
        PeerId validator;                            // that was drawn
        bool deputised = false;                      // it has not answered, and another one is to
        bool asked_all = false;
        bool closed = false;
        bool missed = false;  // its silence is counted
    };
    struct Round {
        std::uint64_t step = 0;
        Bytes plan_bytes;
        std::shared_ptr<const consensus::RoundPlan> plan;
        averaging::Proof proof;
        averaging::RowTable rows;
        std::map<PeerId, std::uint64_t> steps;  // in which each has weighed
        std::set<PeerId> voters;                // in the plan
        std::set<PeerId> checkers;              // of them, who offer it
        std::shared_ptr<const state::Snapshot> state;
        std::shared_ptr<const state::Snapshot> state_before;  // of what was carried
        std::map<std::uint32_t, OpenRecheck> rechecks;        // by target
    };

    static std::optional<std::uint32_t> place_of(const consensus::RoundPlan& plan,
                                                 const PeerId& peer);
    void receive_proof(const consensus::Decision& decision,
                       std::shared_ptr<const consensus::RoundPlan> plan,
                       std::shared_ptr<const state::Snapshot> state,
                       ByteView proof);
    Task<void> fetch_proof(consensus::Decision decision,
                           std::shared_ptr<const consensus::RoundPlan> plan,
                           std::shared_ptr<const state::Snapshot> state);
    void assign(Round& round, const Digest& draw);
    double chance_of(const Round& round, const consensus::PlanMember& member) const;
    void open_case(Round& round, const robust::CheckAssignment& job, const Digest& draw);
    void ask_deputies(std::uint64_t step);
    void note_silence(std::uint64_t step);
    bool took_part_since(const PeerId& peer, std::uint64_t step) const;
    // Asked while a round is open.
    std::uint64_t newest_step() const { return rounds_.at(order_of_rounds_.back()).step; }
    std::uint64_t timeout_with(const Round& round,
                               std::uint32_t target,
                               const OpenRecheck& of) const;
    void testify(const Round& round, const PeerId& validator);
    Task<Result<Bytes>> on_silence(PeerId from, Bytes request);
    void receive_silence(const averaging::SignedBy& statement);
    void queue(const Round& round,
               const Digest& draw,
               std::uint32_t target,
               CheckQueue::Reason reason);
    void queue_test_of_ourselves(const Round& round, const Digest& draw);
    void forget_old();
    Task<Result<Bytes>> on_finding(PeerId from, Bytes request);
    void receive_finding(averaging::SignedBy finding);
    void keep_early(const Digest& draw, averaging::SignedBy finding);
    std::size_t needed_for(const Round& round) const;
    void inspect(Round& round, const Digest& draw, std::uint32_t target);
    void ask_all(Round& round, const Digest& draw, std::uint32_t target, OpenRecheck& open);
    bool is_found_right_by_enough(const Round& round, const PeerId& author) const;
    void tell_right(const PeerId& author, std::size_t right) const;
    void found_right(const Round& round, std::uint32_t target, const OpenRecheck& open);
    void found_wrong(const Round& round, std::uint32_t target, const OpenRecheck& open);
    void accuser_wrong(const Round& round, std::uint32_t target, const OpenRecheck& open);
    void test_of_ourselves(const Round& round, std::uint32_t target, bool right);
    GradientRecheck as_evidence(const Round& round,
                                std::uint32_t target,
                                const OpenRecheck& open) const;
    robust::Order order(robust::OrderKind kind,
                        robust::Offence offence,
                        const PeerId& subject) const;
    void propose(robust::Order order, const GradientEvidence& evidence);
    void propose_bytes(robust::Order order, Bytes evidence);
    void publish(const char* method, const averaging::SignedBy& said);
    Task<void> send(PeerId peer, std::string method, Bytes message);
    bool is_mistaken(const PeerId& peer) const;
    // The job's round is remembered and, if another validator was drawn, that one has not answered.
    bool is_wanted(const CheckQueue::Job& job) const;
    bool was_readmitted(const PeerId& peer, const Round& round) const;

    runtime::Node node_;
    p2p::Host& host_;
    const security::Signer& signer_;
    const security::Verifier& verifier_;
    const consensus::Ledger& ledger_;
    const allreduce::PartStore& parts_;
    averaging::EvidenceStore& evidence_;
    events::Teller& teller_;
    ValidatorOptions options_;
    ValidatorHooks hooks_;
    std::map<Digest, Round> rounds_;  // by their draw
    std::deque<Digest> order_of_rounds_;
    CheckQueue jobs_;
    std::map<std::uint64_t, CheckQueue::Job> taken_;
    std::deque<std::pair<Digest, averaging::SignedBy>> early_;
    std::map<PeerId, std::vector<GradientRecheck>>
        right_;  // of those who have yet to prove themselves
    SilentValidators silent_;
    std::atomic<std::size_t> waiting_{0};
    std::atomic<bool> holds_back_{false};
    std::uint64_t next_number_ = 1;
    std::uint64_t checks_made_ = 0;
    std::uint32_t own_right_ = 0;  // in a row, since we erred
    p2p::Handlers handlers_;
    runtime::Scope scope_;
};

}  // namespace dedloc::validation
